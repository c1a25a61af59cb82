//! The first words of errors, by which INFO errorstats counts them.

/// The first word of an error; the index of a word in [`ERROR_CODES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ErrorCode(pub(super) u8);

/// The words that are counted. Errors with another word count as the last one.
pub const ERROR_CODES: &[&str] = &[
    "ERR",
    "WRONGTYPE",
    "NOAUTH",
    "WRONGPASS",
    "OOM",
    "EXECABORT",
    "BUSYKEY",
    "INVALIDOBJ",
    "NOPROTO",
    "LOADING",
    "MISCONF",
    "MOVED",
    "ASK",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "TRYAGAIN",
    "READONLY",
    "NOSCRIPT",
    "BUSY",
    "NOPERM",
    "UNKNOWN",
    "OTHER",
];

impl ErrorCode {
    /// The code of an error's text.
    pub(super) fn of(text: &[u8]) -> ErrorCode {
        let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let known = ERROR_CODES.iter().position(|code| code.as_bytes() == word);
        ErrorCode(known.unwrap_or(ERROR_CODES.len() - 1) as u8)
    }
}
