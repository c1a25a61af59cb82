//! Files of the repository that are generated from tables in the code: reference pages,
//! dictionaries.

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

/// Compares a file with its expected text, or writes it if the environment asks for that.
#[cfg(test)]
pub(crate) fn is_written(path: &str, contents: &str) {
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("TODANA_WRITE_DOCS").is_some() {
        std::fs::write(&path, contents).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == contents, "{} is stale: set TODANA_WRITE_DOCS=1", path.display());
}
