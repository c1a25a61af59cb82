//! The language in which the table describes arguments, rendered for humans and for COMMAND DOCS.
//!
//! ```text
//! key              an argument          seconds...        one or more of it
//! NX               a literal word       (key value)...    one or more groups
//! EX seconds       a word and its argument, one unit
//! [NX|XX]          optional, one of     (a)|(b c)         one of
//! ```

use super::encoder::Encoder;

/// A part of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) optional: bool,
    pub(super) multiple: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// An argument chosen by the client, with a preceding word if it has one.
    Value { name: &'a str, token: Option<&'a str> },
    /// A word.
    Token(&'a str),
    /// One of these.
    OneOf(Vec<Argument<'a>>),
    /// All of these.
    Block(Vec<Argument<'a>>),
}

/// Names of arguments that are integers.
const INTEGERS: &[&str] = &[
    "seconds",
    "milliseconds",
    "start",
    "end",
    "offset",
    "increment",
    "decrement",
    "bit",
    "min-match-len",
    "cursor",
    "count",
    "limit",
    "db",
    "destination-db",
    "index",
    "index1",
    "index2",
    "protover",
    "client-id",
    "maxage",
    "version",
];
const KEYS: &[&str] = &["key", "key1", "key2", "newkey", "source", "destination"];

/// Parses a description. A test ensures that the table's descriptions are well formed.
pub(super) fn parse(syntax: &str) -> Vec<Argument<'_>> {
    let mut rest = syntax;
    let mut alternatives = alternatives(&mut rest);
    debug_assert!(rest.is_empty(), "unread: {rest}");
    match alternatives.len() {
        1 => alternatives.remove(0),
        _ => vec![one_of(alternatives)],
    }
}

/// Sequences separated by `|`, up to a closing bracket.
fn alternatives<'a>(rest: &mut &'a str) -> Vec<Vec<Argument<'a>>> {
    let mut found = vec![Vec::new()];
    loop {
        *rest = rest.trim_start();
        match rest.bytes().next() {
            None | Some(b']' | b')') => return found,
            Some(b'|') => {
                *rest = &rest[1..];
                found.push(Vec::new());
            }
            Some(_) => {
                let argument = argument(rest);
                let sequence = found.last_mut().expect("there is always one");
                join(sequence, argument);
            }
        }
    }
}

fn argument<'a>(rest: &mut &'a str) -> Argument<'a> {
    let (kind, optional) = match rest.as_bytes()[0] {
        open @ (b'[' | b'(') => {
            *rest = &rest[1..];
            let inner = alternatives(rest);
            *rest = rest.get(1..).unwrap_or_default();
            (grouped(inner), open == b'[')
        }
        _ => {
            let end = rest
                .find(|c| " |[]()".contains(c) || rest.starts_with("..."))
                .unwrap_or(rest.len());
            let word = &rest[..end];
            let word = word.strip_suffix("...").unwrap_or(word);
            *rest = &rest[word.len()..];
            let is_token = !word.bytes().any(|byte| byte.is_ascii_lowercase());
            (
                if is_token { Kind::Token(word) } else { Kind::Value { name: word, token: None } },
                false,
            )
        }
    };
    let mut argument = Argument { kind, optional, multiple: false };
    if let Some(after) = rest.strip_prefix("...") {
        *rest = after;
        argument.multiple = true;
    }
    argument
}

/// Joins a word with the value that follows it.
fn join<'a>(sequence: &mut Vec<Argument<'a>>, argument: Argument<'a>) {
    if let Some(Argument { kind: last @ Kind::Token(_), .. }) = sequence.last_mut()
        && let Kind::Token(token) = *last
        && let Kind::Value { name, token: None } = argument.kind
    {
        *last = Kind::Value { name, token: Some(token) };
        if argument.multiple {
            sequence.last_mut().expect("seen just now").multiple = true;
        }
        return;
    }
    sequence.push(argument);
}

fn grouped(mut alternatives: Vec<Vec<Argument<'_>>>) -> Kind<'_> {
    if alternatives.len() > 1 {
        return one_of(alternatives).kind;
    }
    let mut sequence = alternatives.remove(0);
    match sequence.as_slice() {
        [Argument { multiple: false, optional: false, .. }] => sequence.remove(0).kind,
        _ => Kind::Block(sequence),
    }
}

fn one_of(alternatives: Vec<Vec<Argument<'_>>>) -> Argument<'_> {
    let each = |mut sequence: Vec<_>| match sequence.len() {
        1 => sequence.remove(0),
        _ => Argument { kind: Kind::Block(sequence), optional: false, multiple: false },
    };
    let kind = Kind::OneOf(alternatives.into_iter().map(each).collect());
    Argument { kind, optional: false, multiple: false }
}

/// The description in the form of manuals: `key [key ...]`.
pub(super) fn for_people(syntax: &str) -> String {
    parse(syntax).iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn shown(argument: &Argument<'_>) -> String {
    let all = |arguments: &[Argument<'_>], between| {
        arguments.iter().map(shown).collect::<Vec<_>>().join(between)
    };
    let (token, text) = match &argument.kind {
        Kind::Value { name, token } => (*token, (*name).to_owned()),
        Kind::Token(token) => (None, (*token).to_owned()),
        Kind::OneOf(arguments) => (None, all(arguments, " | ")),
        Kind::Block(arguments) => (None, all(arguments, " ")),
    };
    let text = if argument.multiple { format!("{text} [{text} ...]") } else { text };
    let text = token.map_or(text.clone(), |token| format!("{token} {text}"));
    match (argument.optional, &argument.kind) {
        (true, _) => format!("[{text}]"),
        (false, Kind::OneOf(_)) => format!("<{text}>"),
        _ => text,
    }
}

/// Encodes the arguments in the form of COMMAND DOCS.
pub(super) fn encode(arguments: &[Argument<'_>], encoder: &mut Encoder<'_>) {
    encoder.array(arguments.len());
    for argument in arguments {
        let (name, kind, token, inner) = described(argument);
        let is_key = kind == "key";
        let shows = !matches!(argument.kind, Kind::OneOf(_) | Kind::Block(_));
        let flags = usize::from(argument.optional) + usize::from(argument.multiple);
        let optional = [is_key, shows, token.is_some(), flags > 0, !inner.is_empty()];
        encoder.map(2 + optional.iter().filter(|it| **it).count());
        encoder.text("name");
        encoder.text(&name);
        encoder.text("type");
        encoder.text(kind);
        if shows {
            encoder.text("display_text");
            encoder.text(&name);
        }
        if is_key {
            encoder.text("key_spec_index");
            encoder.integer(i64::from(["newkey", "destination"].contains(&name.as_str())));
        }
        if let Some(token) = token {
            encoder.text("token");
            encoder.text(token);
        }
        if flags > 0 {
            encoder.text("flags");
            encoder.array(flags);
            if argument.optional {
                encoder.simple("optional");
            }
            if argument.multiple {
                encoder.simple("multiple");
            }
        }
        if !inner.is_empty() {
            encoder.text("arguments");
            encode(inner, encoder);
        }
    }
}

/// Name, type, word and inner arguments.
fn described<'a>(
    argument: &'a Argument<'a>,
) -> (String, &'static str, Option<&'a str>, &'a [Argument<'a>]) {
    let first = |inner: &[Argument<'_>]| {
        inner.iter().map(|it| described(it).0).take(3).collect::<Vec<_>>().join("-")
    };
    match &argument.kind {
        Kind::Value { name, token } => {
            let kind = match *name {
                name if KEYS.contains(&name) => "key",
                name if INTEGERS.contains(&name) => "integer",
                name if name.starts_with("unix-time") => "unix-time",
                "float" => "double",
                "pattern" => "pattern",
                _ => "string",
            };
            ((*name).to_owned(), kind, *token, &[])
        }
        Kind::Token(token) => (token.to_ascii_lowercase(), "pure-token", Some(token), &[]),
        Kind::OneOf(inner) => (first(inner), "oneof", None, inner),
        Kind::Block(inner) => (first(inner), "block", None, inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_read_as_manuals_write_them() {
        for (syntax, shown) in [
            ("", ""),
            ("key", "key"),
            ("key...", "key [key ...]"),
            ("(key value)...", "key value [key value ...]"),
            ("key [NX|XX] [EX seconds|KEEPTTL]", "key [NX | XX] [EX seconds | KEEPTTL]"),
            ("[ID client-id...]", "[ID client-id [client-id ...]]"),
            ("ON|OFF", "<ON | OFF>"),
            ("key [start end [BYTE|BIT]]", "key [start end [BYTE | BIT]]"),
            ("(LIB-NAME a)|(LIB-VER b)", "<LIB-NAME a | LIB-VER b>"),
        ] {
            assert_eq!(for_people(syntax), shown, "{syntax}");
        }
    }

    #[test]
    fn every_description_in_the_table_is_well_formed() {
        for spec in crate::table::TABLE {
            let shown = for_people(spec.syntax);
            let balance = |open, close| shown.matches(open).count() == shown.matches(close).count();
            assert!(balance('[', ']') && balance('<', '>'), "{}: {shown}", spec.name);
        }
    }
}
