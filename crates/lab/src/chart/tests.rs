//! What a figure must show is looked for in the figure itself.

use super::*;
use crate::results::Results;
use roxmltree::Document;
use std::path::Path;

/// A plan of two parameters with these lines more, and results that its first column has.
fn drawn(parameters: &str, more: &str, value: impl Fn(usize) -> f64) -> String {
    let text = format!(
        "[plan]\ntitle = \"t\"\nfigure = \"f\"\nmodel = \"sfc_pipeline\"\n[parameters]\n{parameters}\n\
         [[figure]]\nname = \"a\"\nx = \"functions\"\ny = [\"native_ns\"]\n{more}"
    );
    let plan = Plan::parse(&text, Path::new("p.toml")).expect("a plan");
    let points = plan.points(false);
    let results = Results {
        quick: false,
        rows: (0..points.len())
            .map(|point| (point, vec![value(point)]))
            .collect(),
        points,
    };
    draw(&plan, &plan.figures[0], &results).expect("a figure")
}

/// Elements of this kind, with one of their attributes.
fn all(svg: &str, tag: &str, attribute: &str) -> Vec<String> {
    let document = Document::parse(svg).expect("well-formed");
    let nodes = document.descendants().filter(|node| node.has_tag_name(tag));
    nodes
        .filter_map(|node| node.attribute(attribute).map(str::to_owned))
        .collect()
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).expect("well-formed");
    let nodes = document.descendants().filter(|node| node.is_element());
    let texts = nodes.filter_map(|node| node.text());
    let texts = texts.map(|text| text.trim().to_owned());
    texts.filter(|text| !text.is_empty()).collect()
}

/// Circles that are markers on the figure: the legend has one for each line.
fn markers(svg: &str, lines: usize) -> usize {
    all(svg, "circle", "cx").len() - lines
}

#[test]
fn a_single_point_is_drawn() {
    let svg = drawn("functions = 2", "", |_| 7.0);
    assert_eq!(markers(&svg, 1), 1);
    let bound = "[[expect]]\nof = \"native_ns\"\nsource = \"s\"\nis = \"below\"\nvalues = 9";
    let svg = drawn("functions = 2", bound, |_| 7.0);
    assert_eq!(markers(&svg, 1), 1);
    assert!(texts(&svg).contains(&"at most: s".to_owned()));
    // A dash in the figure, and two in the legend.
    let without = drawn("functions = 2", "", |_| 7.0);
    let dashes = |svg: &str| {
        let strokes = all(svg, "polyline", "stroke").into_iter();
        strokes.filter(|stroke| stroke == "#0072B2").count()
    };
    assert_eq!(dashes(&svg), dashes(&without) + 3);
}

/// Two parameters beside the axis once made one line that went to and fro.
#[test]
fn each_combination_of_parameters_has_a_line_and_markers() {
    let svg = drawn(
        "functions = [1, 2, 3]\nmodule_stages = [4, 6]\nrewrite_tables = [1, 2]",
        "",
        |point| point as f64,
    );
    assert_eq!(markers(&svg, 4), 12);
    let texts = texts(&svg);
    for label in [
        "module stages 4, rewrite tables 1",
        "module stages 6, rewrite tables 2",
    ] {
        assert!(texts.contains(&label.to_owned()), "{texts:?}");
    }
}

#[test]
fn some_of_the_points_can_be_shown() {
    let svg = drawn(
        "functions = [1, 2, 3]\nmodule_stages = [4, 6]",
        "where = { module_stages = 6 }",
        |point| point as f64,
    );
    assert_eq!(markers(&svg, 1), 3);
}

#[test]
fn axes_have_words_and_units_and_papers_are_named() {
    let source = "paper: a statement that is longer than one line of the legend of a figure";
    let expect =
        format!("[[expect]]\nof = \"native_ns\"\nsource = \"{source}\"\nvalues = 3\nwithin = 1");
    let svg = drawn("functions = [1, 2, 3]", &expect, |point| point as f64);
    let texts = texts(&svg);
    assert!(texts.contains(&"functions".to_owned()), "{texts:?}");
    assert!(texts.contains(&"native, ns".to_owned()), "{texts:?}");
    let legend = texts.join(" ");
    assert!(legend.contains(source), "{legend}");
    assert!(
        texts.iter().all(|text| text.len() <= 2 * LETTERS),
        "{texts:?}"
    );
}

#[test]
fn values_over_decades_are_divided_by_logarithm() {
    let over = |high: f64| {
        let svg = drawn("functions = [1, 2, 3]", "", move |point| {
            [1.0, 10.0, high][point]
        });
        texts(&svg)
    };
    let log = over(1000.0);
    assert!(
        log.contains(&"1000".to_owned()) && !log.contains(&"500".to_owned()),
        "{log:?}"
    );
    let linear = over(20.0);
    assert!(linear.contains(&"6".to_owned()), "{linear:?}");
}

#[test]
fn nothing_has_a_place_on_a_logarithmic_axis() {
    assert_eq!(scale(Scale::Auto, [0.1, 20.0].into_iter()), Scale::Log);
    assert_eq!(scale(Scale::Auto, [0.0, 20.0].into_iter()), Scale::Linear);
    assert_eq!(scale(Scale::Linear, [0.1, 20.0].into_iter()), Scale::Linear);
    let axes = Axes {
        x: Scale::Log,
        y: Scale::Linear,
        zero: Some(-6.0),
        names: Vec::new(),
    };
    assert_eq!(axes.along(0.0), Some(-6.0));
    assert_eq!(
        (axes.x_label(-6.0), axes.x_label(-5.0)),
        ("0".into(), "1e-5".into())
    );
}
