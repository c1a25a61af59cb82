//! An encoded reply as a value.

use todana_command::Value;

/// The value of one reply; `None` if the bytes are none.
pub(super) fn value(bytes: &[u8]) -> Option<Value> {
    let mut rest = bytes;
    parse(&mut rest)
}

fn parse(rest: &mut &[u8]) -> Option<Value> {
    let (&kind, after) = rest.split_first()?;
    let end = memchr::memchr(b'\n', after)?;
    let line = after.get(..end.checked_sub(1)?)?;
    *rest = after.get(end + 1..)?;
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    Some(match kind {
        b'+' => Value::Status(line.to_vec()),
        b'-' => Value::Error(line.to_vec()),
        b':' => Value::Integer(number()?),
        b'_' => Value::Null,
        b'#' => Value::Boolean(line == b"t"),
        b',' => Value::Double(std::str::from_utf8(line).ok()?.parse().ok()?),
        b'(' => Value::BigNumber(line.to_vec()),
        b'$' | b'=' => {
            let Ok(length) = usize::try_from(number()?) else { return Some(Value::Null) };
            let text = rest.get(..length)?;
            *rest = rest.get(length + 2..)?;
            match kind {
                b'=' => Value::Verbatim(*text.first_chunk()?, text.get(4..)?.to_vec()),
                _ => Value::Bytes(text.to_vec()),
            }
        }
        b'*' | b'~' => {
            let Ok(length) = usize::try_from(number()?) else { return Some(Value::Null) };
            let values = (0..length).map(|_| parse(rest)).collect::<Option<_>>()?;
            if kind == b'*' { Value::List(values) } else { Value::Set(values) }
        }
        b'%' => {
            let pairs = (0..number()?).map(|_| Some((parse(rest)?, parse(rest)?)));
            Value::Map(pairs.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_become_values() {
        let text = |text: &str| text.as_bytes().to_vec();
        let cases = [
            ("+OK\r\n", Value::Status(text("OK"))),
            ("-ERR x\r\n", Value::Error(text("ERR x"))),
            (":-5\r\n", Value::Integer(-5)),
            ("$3\r\na\nb\r\n", Value::Bytes(text("a\nb"))),
            ("$-1\r\n", Value::Null),
            ("*-1\r\n", Value::Null),
            ("_\r\n", Value::Null),
            ("#t\r\n", Value::Boolean(true)),
            (",1.5\r\n", Value::Double(1.5)),
            ("=5\r\ntxt:x\r\n", Value::Verbatim(*b"txt", text("x"))),
            ("*2\r\n:1\r\n$0\r\n\r\n", Value::List(vec![Value::Integer(1), Value::Bytes(vec![])])),
            ("%1\r\n:1\r\n:2\r\n", Value::Map(vec![(Value::Integer(1), Value::Integer(2))])),
            ("~1\r\n:1\r\n", Value::Set(vec![Value::Integer(1)])),
        ];
        for (bytes, expected) in cases {
            assert_eq!(value(bytes.as_bytes()), Some(expected), "{bytes}");
            for len in 0..bytes.len() - 1 {
                assert_eq!(value(&bytes.as_bytes()[..len]), None, "{bytes} {len}");
            }
        }
    }
}
