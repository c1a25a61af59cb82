//! The first line of a script: `#!lua name=x flags=no-writes,allow-oom`.

/// What the first line of a script says about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// It does not write (`no-writes`).
    pub no_writes: bool,
    /// It may begin although the memory is full (`allow-oom`).
    pub allow_oom: bool,
    /// There is such a line. Without one, Redis knows no flags, and refuses less.
    pub is_present: bool,
}

impl Header {
    /// Whether the script may write, by what it says about itself.
    pub fn declares_writes(self) -> bool {
        self.is_present && !self.no_writes
    }

    /// Whether the script must not begin while the memory is full.
    pub fn needs_room(self) -> bool {
        self.declares_writes() && !self.allow_oom
    }
}

/// The header of a script, and the length of its line, which is not Lua. An error is a sentence.
pub fn split(source: &[u8]) -> Result<(Header, usize), String> {
    if !source.starts_with(b"#!") {
        return Ok((Header::default(), 0));
    }
    let end = source.iter().position(|&byte| byte == b'\n').ok_or("Invalid script shebang")?;
    let line = String::from_utf8_lossy(&source[2..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "lua" {
        return Err(format!("Unexpected engine in script shebang: #!{engine}"));
    }
    let mut header = Header { is_present: true, ..Header::default() };
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(format!("Unknown lua shebang option: {word}"));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => header.no_writes = true,
                "allow-oom" => header.allow_oom = true,
                "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => return Err(format!("Unexpected flag in script shebang: {flag}")),
            }
        }
    }
    Ok((header, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_flags() {
        let split = |text: &str| split(text.as_bytes());
        assert_eq!(split("return 1"), Ok((Header::default(), 0)));
        let header = Header { no_writes: true, allow_oom: true, is_present: true };
        assert_eq!(split("#!lua flags=no-writes,allow-oom\nreturn 1"), Ok((header, 31)));
        let header = Header { is_present: true, ..Header::default() };
        assert_eq!(split("#!lua\nreturn 1"), Ok((header, 5)));
        let needs =
            |flags: &str| split(&format!("#!lua{flags}\n")).map(|(header, _)| header.needs_room());
        assert_eq!(needs(""), Ok(true));
        assert_eq!(needs(" flags=allow-oom"), Ok(false));
        assert_eq!(needs(" flags=no-writes"), Ok(false));
        assert!(!Header::default().needs_room());
        let wrong = [
            ("#!lua", "Invalid script shebang"),
            ("#!js\n", "Unexpected engine in script shebang: #!js"),
            ("#!lua name=x\n", "Unknown lua shebang option: name=x"),
            ("#!lua flags=fast\n", "Unexpected flag in script shebang: fast"),
        ];
        for (text, message) in wrong {
            assert_eq!(split(text), Err(message.to_owned()));
        }
    }
}
