//! Messages that clients have not requested, as they are sent.

use std::sync::Arc;

/// A message as clients receive it.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// In RESP3.
    pub(crate) resp3: Arc<[u8]>,
    /// In RESP2, if that differs in more than the first byte.
    pub(crate) resp2: Option<Arc<[u8]>>,
    /// Whether it is the same in both, its first byte included.
    pub(crate) is_line: bool,
}

impl Frame {
    /// The invalidation of keys, or of all. A client that uses RESP2 receives it as a message, if
    /// another one has redirected it.
    pub(crate) fn invalidation(keys: Option<&[&[u8]]>) -> Frame {
        let list = |none: &str| match keys {
            None => none.as_bytes().to_vec(),
            Some(keys) => {
                let mut bytes = format!("*{}\r\n", keys.len()).into_bytes();
                for key in keys {
                    bytes.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
                    bytes.extend_from_slice(key);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes
            }
        };
        let resp3 = [b">2\r\n$10\r\ninvalidate\r\n".as_slice(), &list("_\r\n")].concat();
        let head = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n".as_slice();
        let resp2 = [head, &list("$-1\r\n")].concat();
        Frame { resp3: resp3.into(), resp2: Some(resp2.into()), is_line: false }
    }

    /// The client to which invalidations are redirected has left.
    pub(crate) fn broken_redirection(id: u64) -> Frame {
        let text = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n");
        Frame { resp3: text.into_bytes().into(), resp2: None, is_line: false }
    }

    /// A push of these words.
    pub(crate) fn of(words: &[&[u8]]) -> Frame {
        let mut bytes = format!(">{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        Frame { resp3: bytes.into(), resp2: None, is_line: false }
    }

    /// A line of MONITOR.
    pub(crate) fn line(line: Vec<u8>) -> Frame {
        Frame { resp3: line.into(), resp2: None, is_line: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_a_null_of_each_version() {
        let frame = Frame::invalidation(None);
        assert_eq!(*frame.resp3, *b">2\r\n$10\r\ninvalidate\r\n_\r\n");
        let resp2 = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n";
        assert_eq!(frame.resp2.as_deref(), Some(resp2.as_slice()));
    }
}
