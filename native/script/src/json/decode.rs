//! Text of JSON as values of Lua.

use crate::library::{Failure, VALUE_STEPS, spend};
use crate::lua::{Lua, Table, Value};

/// What the text has at one place.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    End,
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::End => "T_END",
        }
    }
}

/// A table that is being filled.
enum Open<'l> {
    Array(Table<'l>, usize),
    Object(Table<'l>, Vec<u8>),
}

struct Input<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the present token begins.
    begin: usize,
}

type Decoded<T> = Result<T, Failure>;

pub(super) fn decode<'l>(lua: &'l Lua, text: &[u8], depth_max: usize) -> Decoded<Value<'l>> {
    // UTF-16 and UTF-32 have zeroes among the first bytes.
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let mut input = Input { text, at: 0, begin: 0 };
    let mut open: Vec<Open<'l>> = Vec::new();
    let mut token = input.next("value")?;
    loop {
        // A value begins.
        spend(lua, VALUE_STEPS)?;
        let mut value = match token {
            Token::Text(text) => Value::String(lua.create_string(text)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(flag) => Value::Boolean(flag),
            Token::Null => Value::Null,
            Token::ArrayBegin | Token::ObjectBegin => {
                if open.len() >= depth_max {
                    let (depth, at) = (open.len() + 1, input.begin + 1);
                    let text = format!(
                        "Found too many nested data structures ({depth}) at character {at}"
                    );
                    return Err(text.into());
                }
                let table = lua.create_table()?;
                let is_array = matches!(token, Token::ArrayBegin);
                token = input.next(if is_array { "value" } else { "object key string" })?;
                match (is_array, token) {
                    (true, Token::ArrayEnd) | (false, Token::ObjectEnd) => Value::Table(table),
                    (true, first) => {
                        open.push(Open::Array(table, 1));
                        token = first;
                        continue;
                    }
                    (false, key) => {
                        let key = input.key(key)?;
                        open.push(Open::Object(table, key));
                        token = input.next("value")?;
                        continue;
                    }
                }
            }
            other => return Err(input.unexpected("value", &other)),
        };
        // A value ends, and perhaps the tables around it.
        loop {
            let Some(last) = open.pop() else {
                return match input.next("the end")? {
                    Token::End => Ok(value),
                    other => Err(input.unexpected("the end", &other)),
                };
            };
            match last {
                Open::Array(table, at) => {
                    table.raw_set(at, value)?;
                    match input.next("comma or array end")? {
                        Token::ArrayEnd => value = Value::Table(table),
                        Token::Comma => {
                            open.push(Open::Array(table, at + 1));
                            break;
                        }
                        other => return Err(input.unexpected("comma or array end", &other)),
                    }
                }
                Open::Object(table, key) => {
                    table.raw_set(lua.create_string(key)?, value)?;
                    match input.next("comma or object end")? {
                        Token::ObjectEnd => value = Value::Table(table),
                        Token::Comma => {
                            let key = input.next("object key string")?;
                            let key = input.key(key)?;
                            open.push(Open::Object(table, key));
                            break;
                        }
                        other => return Err(input.unexpected("comma or object end", &other)),
                    }
                }
            }
        }
        token = input.next("value")?;
    }
}

impl Input<'_> {
    fn unexpected(&self, wanted: &str, found: &Token) -> Failure {
        self.wrong(wanted, found.name())
    }

    fn wrong(&self, wanted: &str, found: &str) -> Failure {
        format!("Expected {wanted} but found {found} at character {}", self.begin + 1).into()
    }

    /// The key of an object, and the colon after it.
    fn key(&mut self, token: Token) -> Decoded<Vec<u8>> {
        let Token::Text(key) = token else {
            return Err(self.unexpected("object key string", &token));
        };
        match self.next("colon")? {
            Token::Colon => Ok(key),
            other => Err(self.unexpected("colon", &other)),
        }
    }

    fn next(&mut self, wanted: &str) -> Decoded<Token> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.begin = self.at;
        let Some(&byte) = self.text.get(self.at) else { return Ok(Token::End) };
        let words: [(&[u8], Token); 3] = [
            (b"true", Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (word, token) in words {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(token);
            }
        }
        self.at += 1;
        Ok(match byte {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => Token::Text(self.text(wanted)?),
            b'-' | b'0'..=b'9' => Token::Number(self.number(wanted)?),
            _ => return Err(self.wrong(wanted, "invalid token")),
        })
    }

    fn number(&mut self, wanted: &str) -> Decoded<f64> {
        let rest = &self.text[self.begin..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let len = rest.iter().take_while(|byte| is_part(byte)).count();
        let number = std::str::from_utf8(&rest[..len]).ok();
        // Rust accepts `+1`, `.5` and `1.`; of these, only the last begins as a number of JSON.
        let number = number.filter(|text| !text.ends_with('.')).and_then(|text| text.parse().ok());
        self.at = self.begin + len;
        number.ok_or_else(|| self.wrong(wanted, "invalid number"))
    }

    /// The rest of a string, after its first quote.
    fn text(&mut self, wanted: &str) -> Decoded<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                return Err(self.wrong(wanted, "unexpected end of string"));
            };
            self.at += 1;
            match byte {
                b'"' => return Ok(out),
                b'\\' => {
                    let escape = self.text.get(self.at).copied();
                    self.at += 1;
                    out.push(match escape {
                        Some(byte @ (b'"' | b'\\' | b'/')) => byte,
                        Some(b'b') => 8,
                        Some(b't') => 9,
                        Some(b'n') => 10,
                        Some(b'f') => 12,
                        Some(b'r') => 13,
                        Some(b'u') => {
                            let character = self
                                .unicode()
                                .ok_or_else(|| self.wrong(wanted, "invalid unicode escape code"))?;
                            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                            continue;
                        }
                        _ => return Err(self.wrong(wanted, "invalid escape code")),
                    });
                }
                0..32 => return Err(self.wrong(wanted, "invalid token")),
                _ => out.push(byte),
            }
        }
    }

    /// A character after `\u`, which may be a pair of surrogates.
    fn unicode(&mut self) -> Option<char> {
        let first = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        if self.text.get(self.at..self.at + 2)? != b"\\u" {
            return None;
        }
        self.at += 2;
        let second = self.four_digits()?;
        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + low)
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        digits.iter().try_fold(0, |number, byte| Some(number * 16 + digit(byte)?))
    }
}
