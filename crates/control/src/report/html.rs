//! `report.html`: one file, nothing loaded from elsewhere and no script; light
//! and dark, from a phone to a wide screen. It is well-formed XML too.

mod details;
mod tiles;

use std::fs;
use std::path::Path;

use super::escape::escape;
use super::plot::Figure;
use super::{Clock, Execution, Paths, Percentiles, Report, ReportError, figures, units};

const STYLE: &str = include_str!("html/style.css");

/// Writes the page to a file.
///
/// # Errors
/// [`ReportError::File`] if the file cannot be written, and as [`render`].
pub fn write(report: &Report, path: &Path) -> Result<(), ReportError> {
    fs::write(path, render(report)?).map_err(ReportError::file(path))
}

/// The page as text.
///
/// # Errors
/// [`ReportError::Plot`] if a figure cannot be drawn; no report is known to
/// cause it.
pub fn render(report: &Report) -> Result<String, ReportError> {
    let title = escape(&report.run.service);
    let body = [
        header(report),
        "<main>\n".to_owned(),
        warnings(report),
        tiles::tiles(report),
        "<section class=\"cards\">\n".to_owned(),
        figure_cards(report)?,
        "</section>\n<section class=\"details\">\n".to_owned(),
        details::detail_cards(report),
        "</section>\n</main>\n".to_owned(),
        footer(report),
    ];
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title} · Twinpath report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
        body.concat()
    ))
}

/// A remark in small letters.
fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>", escape(text))
}

fn warnings(report: &Report) -> String {
    let row = |warning: &String| format!("<li>{}</li>\n", escape(warning));
    let rows: String = report.warnings.iter().map(row).collect();
    match rows.as_str() {
        "" => rows,
        rows => format!("<ul class=\"warnings\">\n{rows}</ul>\n"),
    }
}

fn header(report: &Report) -> String {
    let run = &report.run;
    let workers = units::counted(run.workers, "worker");
    let execution = match run.execution {
        Execution::Threads => format!("threads, {workers}"),
        Execution::Virtual => format!("virtual time, {workers}"),
    };
    let paths = match run.paths {
        Paths::Both => "both",
        Paths::Slow => "slow only",
    };
    let facts = [
        ("Input", run.input.clone()),
        ("Paths", paths.to_owned()),
        ("Execution", execution),
        ("Seed", run.seed.to_string()),
        ("Captured", units::duration(run.duration_capture_ns)),
        ("Ran", units::duration(run.duration_wall_ns)),
    ];
    let facts: String = facts
        .iter()
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escape(value)))
        .collect();
    format!(
        "<header>\n<p class=\"kicker\">Twinpath report</p>\n<h1>{}</h1>\n<dl class=\"facts\">\n{facts}</dl>\n</header>\n",
        escape(&run.service)
    )
}

fn figure_cards(report: &Report) -> Result<String, ReportError> {
    let clock = match report.run.series_clock {
        Clock::Wall => "time by the wall clock",
        Clock::Capture => "time by the capture's clock",
    };
    let paths = [("fast", "fast path"), ("slow", "slow path")];
    let over_time = |title, classes: &[(&str, &str)], figure: Option<Figure>| {
        let drawing = drawing(figure)?;
        let legend = legend(classes, clock);
        Ok::<_, ReportError>(format!(
            "<figure class=\"card\">\n<h2>{title}</h2>\n{legend}{drawing}</figure>\n"
        ))
    };
    let series = &report.series;
    let settled = [("fast", "settled by the fast path alone")];
    let left = [
        ("fast", "left by the fast path alone"),
        ("slow", "by way of the slow path"),
    ];
    let states = [
        ("active", "active"),
        ("incomplete", "incomplete"),
        ("frozen", "frozen"),
    ];
    let mut cards = vec![
        latency_card(report, &legend(&paths, ""))?,
        over_time("Hit ratio over time", &settled, figures::hit_ratio(series))?,
        over_time("Throughput over time", &left, figures::throughput(series))?,
    ];
    if !report.rules.is_empty() {
        let active = [("active", "that packets meet")];
        let figure = figures::rules(series);
        cards.push(over_time("Cached rules over time", &active, figure)?);
    }
    if report.shows_flow_state() {
        let figure = figures::slots(series);
        cards.push(over_time("Slots by state over time", &states, figure)?);
    }
    Ok(cards.concat())
}

fn drawing(figure: Option<Figure>) -> Result<String, ReportError> {
    match figure {
        Some(figure) => figure.draw(),
        None => {
            Ok("<p class=\"empty\">Nothing to show: this run has no data for it.</p>\n".to_owned())
        }
    }
}

fn legend(entries: &[(&str, &str)], remark: &str) -> String {
    let entry =
        |(class, name): &(&str, &str)| format!("<li><i class=\"swatch {class}\"></i>{name}</li>");
    let entries: String = entries.iter().map(entry).collect();
    format!("<ul class=\"legend\">{entries}<li class=\"remark\">{remark}</li></ul>\n")
}

fn latency_card(report: &Report, legend: &str) -> Result<String, ReportError> {
    let drawing = drawing(figures::latency(&report.latency))?;
    let table = latency_table(report);
    Ok(format!(
        "<figure class=\"card wide\">\n<h2>Latency by path</h2>\n<div class=\"halves\">\n\
         <div>{legend}{drawing}</div>\n{table}</div>\n</figure>\n"
    ))
}

fn latency_table(report: &Report) -> String {
    let (fast, slow) = (&report.latency.fast, &report.latency.slow);
    let values = |p: &Percentiles| {
        [
            p.min_ns, p.p50_ns, p.p90_ns, p.p99_ns, p.p999_ns, p.max_ns, p.mean_ns,
        ]
    };
    let cell = |p: &Percentiles, value_ns| match p.count {
        0 => "<td>–</td>".to_owned(),
        _ => format!("<td>{}</td>", units::duration(value_ns)),
    };
    let names = [
        "shortest",
        "median (p50)",
        "p90",
        "p99",
        "p99.9",
        "longest",
        "mean",
    ];
    let rows = names.into_iter().zip(values(fast)).zip(values(slow));
    let rows: String = rows
        .map(|((name, of_fast), of_slow)| {
            format!(
                "<tr><td>{name}</td>{}{}</tr>\n",
                cell(fast, of_fast),
                cell(slow, of_slow)
            )
        })
        .collect();
    format!(
        "<table>\n<thead><tr><th></th><th><i class=\"swatch fast\"></i>fast path</th>\
         <th><i class=\"swatch slow\"></i>slow path</th></tr></thead>\n<tbody>\n{rows}\
         <tr><td>packets measured</td><td>{}</td><td>{}</td></tr>\n</tbody></table>\n",
        units::count(fast.count),
        units::count(slow.count)
    )
}

fn footer(report: &Report) -> String {
    format!(
        "<footer>The same numbers for programs: <code>{}</code> (<code>{}</code>). Twinpath {}.</footer>\n",
        super::JSON_FILE,
        escape(&report.schema),
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Sample;
    use super::super::testing::{any_report, counters, edge_report};
    use super::*;

    fn parse(page: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        };
        roxmltree::Document::parse_with_options(page, options).expect("well-formed")
    }

    /// The text of the page as a reader sees it.
    fn text(page: &str) -> String {
        let document = parse(page);
        let body = document
            .descendants()
            .find(|node| node.has_tag_name("body"))
            .expect("a body");
        let pieces = body
            .descendants()
            .filter(|node| node.is_text())
            .filter_map(|node| node.text());
        pieces.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_page_has_every_figure_and_headline() {
        let page = render(&edge_report()).unwrap();
        let svg = (SVG_NAMESPACE, "svg");
        let figures = parse(&page)
            .descendants()
            .filter(|node| node.has_tag_name(svg))
            .count();
        assert_eq!(figures, 5);
        let text = text(&page);
        for expected in [
            "Latency by path",
            "Hit ratio over time",
            "Throughput over time",
            "Slots by state over time",
            "Cached rules over time",
            "Rule hit ratio",
            "9,600,000",
            "Rules: acl, napt",
            "state_changed",
            "Drops by reason",
            "firewall_denied",
            "31,204",
            "9.39",
            "84.1",
            "12,300,021",
            "45,657",
            "45,526",
            "Function: load_balancer",
            "rewritten",
            "8,100,000",
            "61,200",
            "campus.pcap.gz",
        ] {
            assert!(text.contains(expected), "no {expected}");
        }
    }

    #[test]
    fn loss_is_red_and_decisions_are_not() {
        let page = render(&edge_report()).unwrap();
        assert!(page.contains("<div class=\"tile bad\"><p class=\"label\">Packets lost</p>"));
        assert!(page.contains("<div class=\"drop bad\"><span>punt_<wbr/>ring_<wbr/>full</span>"));
        assert!(page.contains("<div class=\"drop\"><span>firewall_<wbr/>denied</span>"));
        assert!(page.contains("<ul class=\"warnings\">\n<li>less came &lt; more</li>\n</ul>"));
        for rule in [".bad .value {", ".drop.bad {", ".warnings {"] {
            assert!(
                STYLE.contains(&format!("{rule} color: var(--bad)")),
                "{rule}"
            );
        }
        let mut report = edge_report();
        report.drops.remove("punt_ring_full");
        report.warnings.clear();
        let page = render(&report).unwrap();
        assert!(!page.contains("Packets lost") && !page.contains("drop bad"));
        assert!(!page.contains("class=\"warnings\""));
        report.port_losses.receive_missed = 7;
        let page = render(&report).unwrap();
        assert!(page.contains("<div class=\"tile bad\"><p class=\"label\">Packets lost</p>"));
    }

    const SVG_NAMESPACE: &str = "http://www.w3.org/2000/svg";

    #[test]
    fn nothing_is_loaded_and_no_script_runs() {
        let page = render(&edge_report()).unwrap();
        let document = parse(&page);
        for node in document.descendants().filter(|node| node.is_element()) {
            assert!(
                !["script", "link", "img", "iframe", "image"].contains(&node.tag_name().name())
            );
            assert!(
                node.attributes()
                    .all(|a| a.name() != "href" && a.name() != "src")
            );
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }

    #[test]
    fn names_cannot_break_out() {
        let evil = "</td><script>alert(\"1\")</script>&'\0";
        let mut report = edge_report();
        report.run.service = evil.to_owned();
        report.run.input = evil.to_owned();
        report.schema = evil.to_owned();
        report.drops = counters(&[(evil, 1_000_000)]);
        report.functions[0].name = evil.to_owned();
        report.functions[0].counters = counters(&[(evil, 3)]);
        let page = render(&report).unwrap();
        assert!(!page.contains("<script"));
        let shown = text(&page)
            .matches("<script>alert(\"1\")</script>&'\u{FFFD}")
            .count();
        assert_eq!(
            shown, 7,
            "heading, input, schema, drop tile, drop row, function, counter"
        );
    }

    #[test]
    fn an_empty_run_says_so() {
        let text = text(&render(&Report::default()).unwrap());
        assert_eq!(text.matches("Nothing to show").count(), 4);
        assert!(text.contains("Nothing was dropped") && !text.contains("NaN"));
    }

    #[test]
    fn a_chain_without_flow_state_shows_no_slots() {
        let report = Report {
            slots: super::super::SlotCounters::default(),
            ..edge_report()
        };
        let text = text(&render(&report).unwrap());
        assert!(text.contains("Rule hit ratio") && text.contains("lost frames"));
        assert!(!text.contains("Slots") && !text.contains("Coherence"));
    }

    #[test]
    fn one_sample_is_enough_for_the_figures_over_time() {
        let sample = Sample {
            time_ns: 9,
            packets_in: 1,
            packets_fast: 1,
            slots_active: 1,
            ..Sample::default()
        };
        let report = Report {
            series: vec![sample],
            ..Report::default()
        };
        let text = text(&render(&report).unwrap());
        assert_eq!(
            text.matches("Nothing to show").count(),
            1,
            "latency alone is missing"
        );
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let mut report = edge_report();
        let many: Vec<String> = (0..100).map(|n| format!("reason_{n}")).collect();
        report.drops = many.iter().map(|name| (name.clone(), 10)).collect();
        report.functions[0].counters = report.drops.clone();
        report.functions = vec![report.functions[0].clone(); 50];
        let text = text(&render(&report).unwrap());
        assert!(text.contains("all other reasons") && text.contains("600"));
        assert!(text.contains("and 60 more counters") && text.contains("and 10 more functions"));
    }

    #[test]
    fn every_ink_has_a_dark_counterpart() {
        let page = render(&edge_report()).unwrap();
        let document = parse(&page);
        let svg = document
            .descendants()
            .filter(|node| node.tag_name().namespace() == Some(SVG_NAMESPACE));
        for node in svg.filter(|node| !node.has_tag_name((SVG_NAMESPACE, "text"))) {
            for attribute in ["fill", "stroke"] {
                let value = node
                    .attribute(attribute)
                    .filter(|value| value.starts_with('#'));
                if let Some(color) = value {
                    assert!(
                        STYLE.contains(&format!("[{attribute}=\"{color}\"]")),
                        "{attribute} {color}"
                    );
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_report_is_a_well_formed_page(report in any_report()) {
            let page = render(&report).unwrap();
            prop_assert!(text(&page).contains("Drops by reason"));
            prop_assert!(!page.contains("NaN"));
        }
    }
}
