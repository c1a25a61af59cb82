//! Files of the repository that are generated from tables in the code.

/// Compares a file of the repository with its expected text, or writes it if the environment asks
/// for that.
pub fn is_written(path: &str, contents: &str) {
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("TODANA_WRITE_DOCS").is_some() {
        std::fs::write(&path, contents).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == contents, "{} is stale: set TODANA_WRITE_DOCS=1", path.display());
}
