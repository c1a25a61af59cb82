use super::*;

fn matches(pattern: &str, key: &[u8]) -> bool {
    let expression = Expression::compile(pattern.as_bytes());
    expression.unwrap_or_else(|_| panic!("{pattern} compiles")).matches(key)
}

#[track_caller]
fn check(pattern: &str, yes: &[&str], no: &[&str]) {
    for key in yes {
        assert!(matches(pattern, key.as_bytes()), "{pattern} matches {key}");
    }
    for key in no {
        assert!(!matches(pattern, key.as_bytes()), "{pattern} does not match {key}");
    }
}

#[test]
fn searches_are_not_anchored() {
    check("b", &["b", "abc"], &["", "a"]);
    check("^b", &["b", "bc"], &["ab"]);
    check("b$", &["ab"], &["bc", "b\n"]);
    check("", &["", "a"], &[]);
}

#[test]
fn alternatives_and_groups() {
    check("^(ab|c)+$", &["ab", "c", "abcab"], &["", "a"]);
    check("^(a|)b$", &["ab", "b"], &["aab"]);
    check("a||b", &["", "x"], &[]);
    check("^()$", &[""], &["x"]);
    check("(^a|b$)", &["ax", "xb"], &["xa"]);
}

#[test]
fn repetitions() {
    check("^a{2}$", &["aa"], &["a", "aaa"]);
    check("^a{2,}$", &["aa", "aaaa"], &["a"]);
    check("^a{1,2}$", &["a", "aa"], &["", "aaa"]);
    check("^a{,2}$", &["", "aa"], &["aaa"]);
    check("^(ab){2}$", &["abab"], &["ab"]);
    check("^a{0}b$", &["b"], &["ab"]);
}

#[test]
fn a_repetition_of_a_repetition_is_greedy() {
    check("^a+?$", &["", "a", "aaa"], &["b"]);
    check("^a**$", &["", "aaa"], &["b"]);
    check("^a??$", &["", "a"], &["aa"]);
    check("^a{2}{3}$", &["aaaaaa"], &["aa", "aaaaa"]);
    check("^(a{2})*$", &["", "aaaa"], &["aaa"]);
    check("^a{2}+b$", &["aab", "aaaab"], &["b", "aaab"]);
}

#[test]
fn brackets() {
    check("^[a-c]$", &["a", "c"], &["d"]);
    check("^[^a-c]$", &["d", "^"], &["a"]);
    check("^[]a]$", &["]", "a"], &["b"]);
    check("^[^]a]$", &["b"], &["]", "a"]);
    check("^[a-]$", &["a", "-"], &["b"]);
    check("^[-a]$", &["a", "-"], &["b"]);
    check("^[+--]$", &["+", ",", "-"], &["."]);
    check(r"^[\d]$", &["\\", "d"], &["1"]);
    check("^[.*^]$", &[".", "*", "^"], &["a"]);
    check("^[[]$", &["["], &["]"]);
    check("^[:a]$", &[":", "a"], &["b"]);
}

#[test]
fn classes_of_characters() {
    check("^[[:alpha:]_]+$", &["aZ_"], &["a1"]);
    check("^[^[:digit:]]$", &["a"], &["1"]);
    check("^[[:space:]]$", &[" ", "\x0b"], &["a"]);
    check("^[[:punct:]]$", &["!", "~"], &["a", " "]);
    check("^[[:xdigit:][:upper:]]$", &["f", "Z"], &["z"]);
    check("^[[=a=]b]$", &["a", "b"], &["="]);
    check("^[[.-.]a]$", &["-", "a"], &["."]);
}

#[test]
fn escapes_of_glibc_are_known_and_others_mean_the_character() {
    check(r"^\d$", &["d"], &["1"]);
    check(r"^a\.b$", &["a.b"], &["axb"]);
    check(r"^\w+$", &["a_1"], &["a-"]);
    check(r"^\W$", &["-"], &["a"]);
    check(r"^\s\S$", &[" a"], &["a "]);
    check(r"\<foo\>", &["a foo b", "foo"], &["food", "afoo"]);
    check(r"\boo", &["oops"], &["foo"]);
    check(r"\Boo", &["foo"], &["oops"]);
    check(r"\`a\'", &["a"], &["ab"]);
    check(r"^\\$", &["\\"], &["a"]);
}

#[test]
fn closing_signs_without_an_opening_one_mean_themselves() {
    check("^a)$", &["a)"], &["a"]);
    check("^a}$", &["a}"], &["a"]);
    check("^a]$", &["a]"], &["a"]);
}

#[test]
fn patterns_that_glibc_refuses_are_refused() {
    let patterns = r"*a + ? {1} a|*b (*a) (?i)a ^* ( (a [ [a [] [^] a{ a{1 a{x} a{2,1} a{} a{32768}
        [b-a] [a-c-e] [[:foo:]] [a-[:digit:]] [[.ab.]] \ \b+";
    for pattern in patterns.split_ascii_whitespace() {
        let compiled = Expression::compile(pattern.as_bytes());
        assert_eq!(compiled.err(), Some(NotCompiled), "{pattern}");
    }
}

#[test]
fn patterns_without_linear_search_are_refused() {
    for pattern in [r"(a)\1".to_owned(), "(.{100}){100}".into(), "a".repeat(5_000)] {
        assert_eq!(Expression::compile(pattern.as_bytes()).err(), Some(NotCompiled));
    }
    assert_eq!(Expression::compile("(".repeat(4_000).as_bytes()).err(), Some(NotCompiled));
    let nested = format!("{}a{}", "(".repeat(1_500), ")".repeat(1_500));
    let _ = Expression::compile(nested.as_bytes());
}

#[test]
fn bytes_match_as_bytes() {
    assert!(matches("^.$", b"\xff"));
    assert!(!matches("^.$", "é".as_bytes()));
    assert!(matches("^é$", "é".as_bytes()));
    let set = Expression::compile(b"^[\x80-\xff]$").expect("bytes");
    assert!(set.matches(b"\xc3") && !set.matches(b"a"));
    assert!(matches("a.b", b"a\nb"));
}

#[test]
fn keys_and_expressions_end_at_their_first_nul() {
    assert!(matches("^a$", b"a\0b"));
    assert!(!matches("b", b"a\0b"));
    assert!(matches("^a\0(", b"ab"));
}

#[test]
fn work_grows_with_key_and_expression() {
    let work = |pattern: &str, bytes| {
        Expression::compile(pattern.as_bytes()).expect("an expression").work(bytes)
    };
    assert!(work("abc", 100) < work("abc", 1_000));
    assert!(work("[a-z]{3}", 100) < work("[a-z]{300}", 100));
    assert!(work("([a-z]{30}){30}", 1) >= 900);
}
