//! Cumulative distributions of sizes, from the files that papers publish.
//!
//! Three kinds of file are understood, all with one point a line:
//!
//! * two columns, a size and the share of the sizes up to it (`2000 0.9`);
//! * the same after a first line with one number, the mean, which is not needed;
//! * comma-separated with a header that has the columns `kind`, `upto` and
//!   `flows`; the rows of kind `size_octets` or `length_packets` are taken.
//!
//! Shares are percent if any is above 1. Empty lines and lines that begin with
//! `#` are skipped. Between two points the distribution is a straight line, over
//! the sizes or, if asked for, over their logarithms, which is nearer to the truth
//! where points are powers of ten; the first point's share, if it is not 0, is the
//! probability of the first size itself.

use std::path::Path;

use crate::config::{Between, SizeUnit};
use crate::error::{CdfExpected, TrafficError};
use crate::random::RandomSource;

/// A cumulative distribution of sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Cdf {
    points: Vec<Point>,
    coverage: f64,
    between: Between,
}

/// One point: `share` of the sizes are at most `size`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    size: f64,
    share: f64,
}

/// A file that covers at least this share is a whole distribution: its tail was rounded off.
const WHOLE: f64 = 0.999;

impl Cdf {
    /// Reads a file. `unit` tells which rows of a comma-separated file to take;
    /// files of two columns do not say their unit, so the caller must know it.
    /// `partial` accepts a file that ends below 99.9 percent.
    ///
    /// # Errors
    /// [`TrafficError::CdfRead`] and [`TrafficError::CdfSyntax`].
    pub fn read(file: &Path, unit: SizeUnit, partial: bool) -> Result<Self, TrafficError> {
        let text = std::fs::read_to_string(file).map_err(|source| TrafficError::CdfRead {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(&text, unit, partial).map_err(|(line, expected)| TrafficError::CdfSyntax {
            file: file.to_owned(),
            line,
            expected,
        })
    }

    /// Reads the text of a file, as [`Cdf::read`] does.
    ///
    /// # Errors
    /// The line, counted from 1, and what was expected there.
    pub fn parse(text: &str, unit: SizeUnit, partial: bool) -> Result<Self, (usize, CdfExpected)> {
        let points = normalise(parse_points(text, unit)?)?;
        let (last_line, coverage) = points.last().map_or((1, 0.0), |p| (p.0, p.1.share));
        if coverage < WHOLE && !partial || coverage <= 0.0 {
            return Err((last_line, CdfExpected::WholeDistribution(coverage)));
        }
        let points = points.into_iter().map(|(_, p)| Point {
            share: p.share / coverage,
            ..p
        });
        Ok(Self {
            points: points.collect(),
            coverage,
            between: Between::Sizes,
        })
    }

    /// The same points with another line between them.
    #[must_use]
    pub fn with(self, between: Between) -> Self {
        Self { between, ..self }
    }

    /// The mean of the covered part, before sizes are rounded up.
    pub fn mean(&self) -> f64 {
        let first = self.points.first().map_or(0.0, |p| p.size * p.share);
        let lines = self.points.windows(2).map(|pair| {
            let (low, high) = (pair[0], pair[1]);
            (high.share - low.share) * self.middle(low.size, high.size)
        });
        first + lines.sum::<f64>()
    }

    /// The mean of the sizes between two points.
    fn middle(&self, low: f64, high: f64) -> f64 {
        match self.is_by_logarithm(low) && high > low {
            true => (high - low) / libm::log(high / low),
            false => (low + high) / 2.0,
        }
    }

    fn is_by_logarithm(&self, low: f64) -> bool {
        self.between == Between::Logarithms && low > 0.0
    }

    /// The share of the whole distribution that the file covers: 1, or less for
    /// a file without its tail. Sizes are drawn from the covered part.
    pub fn coverage(&self) -> f64 {
        self.coverage
    }

    /// The largest size.
    pub fn largest(&self) -> f64 {
        self.points.last().map_or(0.0, |p| p.size)
    }

    /// The size that `share` (0 to 1) of the covered part are at most.
    pub fn quantile(&self, share: f64) -> f64 {
        let above = self.points.partition_point(|p| p.share < share);
        match (
            above.checked_sub(1).and_then(|i| self.points.get(i)),
            self.points.get(above),
        ) {
            (Some(low), Some(high)) => self.at(*low, *high, share),
            (None, Some(first)) => first.size,
            (_, None) => self.largest(),
        }
    }

    fn at(&self, low: Point, high: Point, share: f64) -> f64 {
        let within = (share - low.share) / (high.share - low.share);
        match self.is_by_logarithm(low.size) {
            true => low.size * libm::exp(within * libm::log(high.size / low.size)),
            false => low.size + within * (high.size - low.size),
        }
    }

    /// Draws a size: at least 1, and whole, rounded up so that the share of the
    /// sizes up to each whole number stays what the file says.
    pub fn sample(&self, random: &mut impl RandomSource) -> u64 {
        (libm::ceil(self.quantile(random.unit())) as u64).max(1)
    }
}

type Numbered = (usize, Point);
type Lines<'a> = Vec<(usize, &'a str)>;

fn parse_points(text: &str, unit: SizeUnit) -> Result<Vec<Numbered>, (usize, CdfExpected)> {
    let lines: Lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    match lines.split_first() {
        None => Err((1, CdfExpected::TwoPoints)),
        Some(((line, header), rows)) if header.contains(',') => Header::parse(header)
            .map_err(|e| (*line, e))?
            .points(rows, unit),
        Some(((_, first), rows)) if number(first).is_some() => two_columns(rows),
        Some(_) => two_columns(&lines),
    }
}

fn two_columns(lines: &[(usize, &str)]) -> Result<Vec<Numbered>, (usize, CdfExpected)> {
    lines
        .iter()
        .map(|&(line, text)| {
            let mut columns = text.split_whitespace().map(number);
            match (columns.next(), columns.next(), columns.next()) {
                (Some(Some(size)), Some(Some(share)), None) => Ok((line, Point { size, share })),
                _ => Err((line, CdfExpected::TwoNumbers)),
            }
        })
        .collect()
}

/// Where the columns of a comma-separated file are.
struct Header {
    kind: usize,
    size: usize,
    share: usize,
}

impl Header {
    fn parse(line: &str) -> Result<Self, CdfExpected> {
        let column = |name| {
            let found = line.split(',').position(|title| title.trim() == name);
            found.ok_or(CdfExpected::Column(name))
        };
        Ok(Self {
            kind: column("kind")?,
            size: column("upto")?,
            share: column("flows")?,
        })
    }

    fn points(
        &self,
        rows: &[(usize, &str)],
        unit: SizeUnit,
    ) -> Result<Vec<Numbered>, (usize, CdfExpected)> {
        let series = match unit {
            SizeUnit::Bytes => "size_octets",
            SizeUnit::Packets => "length_packets",
        };
        let mut points = Vec::new();
        for &(line, text) in rows {
            let cells: Vec<&str> = text.split(',').map(str::trim).collect();
            if cell(&cells, self.kind, "kind").map_err(|e| (line, e))? == series {
                points.push((line, self.point(&cells).map_err(|e| (line, e))?));
            }
        }
        let last_line = rows.last().map_or(1, |row| row.0);
        if points.len() < 2 {
            Err((last_line, CdfExpected::Series(series)))
        } else {
            Ok(points)
        }
    }

    fn point(&self, cells: &[&str]) -> Result<Point, CdfExpected> {
        let number_at =
            |column, name| number(cell(cells, column, name)?).ok_or(CdfExpected::Column(name));
        Ok(Point {
            size: number_at(self.size, "upto")?,
            share: number_at(self.share, "flows")?,
        })
    }
}

fn cell<'a>(cells: &[&'a str], column: usize, name: &'static str) -> Result<&'a str, CdfExpected> {
    cells.get(column).copied().ok_or(CdfExpected::Column(name))
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Checks that the points rise, and turns percent into shares.
fn normalise(mut points: Vec<Numbered>) -> Result<Vec<Numbered>, (usize, CdfExpected)> {
    if points.len() < 2 {
        return Err((points.last().map_or(1, |p| p.0), CdfExpected::TwoPoints));
    }
    let largest = points.iter().map(|(_, p)| p.share).fold(0.0, f64::max);
    let scale = if largest > 1.0 { 100.0 } else { 1.0 };
    let mut before = Point {
        size: 0.0,
        share: 0.0,
    };
    for (line, point) in &mut points {
        point.share /= scale;
        check_rise(before, *point).map_err(|expected| (*line, expected))?;
        before = *point;
    }
    Ok(points)
}

fn check_rise(before: Point, point: Point) -> Result<(), CdfExpected> {
    if !(0.0..=1.0).contains(&point.share) {
        Err(CdfExpected::ShareInRange)
    } else if point.share < before.share {
        Err(CdfExpected::RisingShare(before.share))
    } else if point.size < before.size {
        Err(CdfExpected::RisingSize(before.size))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use twinpath_captures::shared;

    const DRAWS: usize = 200_000;

    fn parse(text: &str) -> Result<Cdf, (usize, CdfExpected)> {
        Cdf::parse(text, SizeUnit::Bytes, false)
    }

    /// Reads a file the crudest way: the points of one series, as (size, share of the last one).
    fn points_by_hand(text: &str, series: Option<&str>) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split([',', ' ']).filter(|f| !f.is_empty()).collect();
            match (series, fields.as_slice()) {
                (None, [size, share]) => {
                    points.push((size.parse().unwrap(), share.parse().unwrap()));
                }
                (Some(name), [kind, size, share, ..]) if *kind == name => {
                    points.push((size.parse().unwrap(), share.parse().unwrap()));
                }
                _ => {}
            }
        }
        let last = points.last().unwrap().1;
        points
            .iter()
            .map(|(size, share)| (*size, share / last))
            .collect()
    }

    /// At every size of the file, the share of the draws up to it is the file's share.
    fn assert_reproduces(cdf: &Cdf, points: &[(f64, f64)]) {
        let mut random = Random::stream(21, 0);
        let mut draws: Vec<u64> = (0..DRAWS).map(|_| cdf.sample(&mut random)).collect();
        draws.sort_unstable();
        for (index, (size, share)) in points.iter().enumerate() {
            // A vertical step has two points of one size: its upper one counts.
            if points.get(index + 1).is_some_and(|next| next.0 == *size) || *size < 1.0 {
                continue;
            }
            let found = draws.partition_point(|&d| d as f64 <= *size) as f64 / DRAWS as f64;
            let deviation = (share * (1.0 - share) / DRAWS as f64).sqrt();
            assert!(
                (found - share).abs() < 5.0 * deviation + 1e-9,
                "{size}: {found} for {share}"
            );
        }
        assert!(*draws.last().unwrap() as f64 <= points.last().unwrap().0);
    }

    #[test]
    fn draws_reproduce_every_shared_file() {
        let Some(folder) = shared("cdf") else {
            return;
        };
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == "SOURCES.txt" || name == "README.md" {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let series: &[(SizeUnit, Option<&str>)] = if name.ends_with(".csv") {
                &[
                    (SizeUnit::Bytes, Some("size_octets")),
                    (SizeUnit::Packets, Some("length_packets")),
                ]
            } else {
                &[(SizeUnit::Bytes, None)]
            };
            for (unit, series) in series {
                let cdf = Cdf::read(&path, *unit, name.contains("_head")).unwrap();
                assert_reproduces(&cdf, &points_by_hand(&text, *series));
                seen += 1;
            }
        }
        assert!(seen >= 11, "only {seen} distributions found");
    }

    #[test]
    fn medians_and_means_of_known_shapes() {
        let cdf = parse("0 0\n10 0.5\n110 1\n").unwrap();
        assert_eq!(cdf.quantile(0.25), 5.0);
        assert_eq!(cdf.quantile(0.75), 60.0);
        assert_eq!(cdf.quantile(1.0), 110.0);
        assert_eq!(cdf, parse("0 0\n10 50\n110 100\n").unwrap());
        assert_eq!(cdf, parse("37.5\n0 0\n10 0.5\n110 1\n").unwrap());
    }

    #[test]
    fn means_are_those_of_the_draws() {
        let steep = "1 0.5\n10 0.8\n1000 1\n";
        for between in [Between::Sizes, Between::Logarithms] {
            let cdf = parse(steep).unwrap().with(between);
            let steps = 1_000_000;
            let quantiles =
                (0..steps).map(|step| cdf.quantile((f64::from(step) + 0.5) / f64::from(steps)));
            let mean = quantiles.sum::<f64>() / f64::from(steps);
            assert!(
                (cdf.mean() / mean - 1.0).abs() < 1e-4,
                "{between:?}: {} {mean}",
                cdf.mean()
            );
        }
        let by_logarithm = parse(steep).unwrap().with(Between::Logarithms);
        assert!((by_logarithm.quantile(0.9) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_first_share_is_the_mass_of_the_first_size() {
        let cdf = parse("84 0.25\n100 1\n").unwrap();
        assert_eq!(cdf.quantile(0.01), 84.0);
        assert_eq!(cdf.quantile(0.25), 84.0);
        assert!(cdf.quantile(0.26) > 84.0);
    }

    #[test]
    fn a_file_without_its_tail_needs_a_word() {
        let head = "1 0.25\n2 0.5\n";
        assert_eq!(parse(head), Err((2, CdfExpected::WholeDistribution(0.5))));
        let cdf = Cdf::parse(head, SizeUnit::Bytes, true).unwrap();
        assert_eq!((cdf.coverage(), cdf.quantile(0.5)), (0.5, 1.0));
    }

    #[test]
    fn errors_name_the_line_and_the_expectation() {
        let cases = [
            ("", 1, CdfExpected::TwoPoints),
            ("# only\n\n", 1, CdfExpected::TwoPoints),
            ("5\n1 1\n", 2, CdfExpected::TwoPoints),
            ("1 0\n2 x\n", 2, CdfExpected::TwoNumbers),
            ("1 0\n2 1 3\n", 2, CdfExpected::TwoNumbers),
            ("1 0\n2\n", 2, CdfExpected::TwoNumbers),
            ("1 0\n2 inf\n", 2, CdfExpected::TwoNumbers),
            ("1 0\n\n3 0.5\n2 1\n", 4, CdfExpected::RisingSize(3.0)),
            ("-1 0\n2 1\n", 1, CdfExpected::RisingSize(0.0)),
            ("1 0.5\n2 0.4\n3 1\n", 2, CdfExpected::RisingShare(0.5)),
            ("1 0\n2 101\n", 2, CdfExpected::ShareInRange),
            ("1 -1\n2 1\n", 1, CdfExpected::ShareInRange),
            ("1 0\n2 0\n", 2, CdfExpected::WholeDistribution(0.0)),
            ("kind,upto\n", 1, CdfExpected::Column("flows")),
            (
                "kind,upto,flows\nsize_octets,1\n",
                2,
                CdfExpected::Column("flows"),
            ),
            (
                "kind,upto,flows\nsize_octets,x,1\n",
                2,
                CdfExpected::Column("upto"),
            ),
            (
                "kind,upto,flows\nlength_packets,1,1\n",
                2,
                CdfExpected::Series("size_octets"),
            ),
        ];
        for (text, line, expected) in cases {
            assert_eq!(parse(text), Err((line, expected)), "{text:?}");
        }
    }

    #[test]
    fn the_error_tells_file_line_and_expectation() {
        let error = TrafficError::CdfSyntax {
            file: "sizes.txt".into(),
            line: 3,
            expected: CdfExpected::TwoNumbers,
        };
        let text = error.to_string();
        assert_eq!(
            text,
            "sizes.txt, line 3: expected two numbers, a size and its cumulative share"
        );
        let missing = Cdf::read(Path::new("no/such/file"), SizeUnit::Bytes, false);
        assert!(missing.unwrap_err().to_string().contains("no/such/file"));
    }

    #[test]
    fn a_partial_file_is_refused_even_then_without_mass() {
        let nothing = Cdf::parse("1 0\n2 0\n", SizeUnit::Bytes, true);
        assert_eq!(nothing, Err((2, CdfExpected::WholeDistribution(0.0))));
    }
}
