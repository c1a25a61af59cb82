//! The text of files that are generated from tables in the code: reference pages, dictionaries.

/// Lines of at most 120 columns, all but the first indented.
pub fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > 120 {
            lines.push_str(&line);
            lines.push('\n');
            line = indent.to_owned();
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}
