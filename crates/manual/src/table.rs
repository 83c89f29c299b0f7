//! Tables and text in Markdown.

/// A table; columns in which nothing is written are left out.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let is_used = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..head.len()).filter(is_used).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.map(cell).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&mut columns.iter().map(|&column| head[column]));
    text += &format!("|{}\n", "---|".repeat(columns.len()));
    for row in rows {
        text += &line(&mut columns.iter().map(|&column| row[column].as_str()));
    }
    text
}

/// What stands in a cell: one line, in which no bar ends it.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// A text as code.
pub fn code(text: &str) -> String {
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_cells_and_empty_columns_go() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "", "one\n  two"]), row(["b|c", "", ""])];
        let expected = "| key | meaning |\n|---|---|\n| a | one two |\n| b\\|c |  |\n";
        assert_eq!(table(&["key", "default", "meaning"], &rows), expected);
    }
}
