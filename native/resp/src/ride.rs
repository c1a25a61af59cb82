//! Requests that share the commit of a request before them.

use super::encoder::Encoder;
use super::lookup;
use super::parser::{Bounds, Parsed, Parser};
use super::request::Arguments;
use super::respond::respond;
use super::state::{State, Unfinished};
use crate::Host;

/// Hands over the commands at the front of the input that may share the commit of a request before
/// them, up to `requests_max`. All are parsed and run again after it, so nothing is consumed here.
#[cold]
pub(super) fn ride<H: Host>(
    state: &mut State,
    mut input: &[u8],
    bounds: Bounds,
    requests_max: usize,
    encoder: &mut Encoder<'_>,
    host: &mut H,
) {
    if state.tracks.is_some_and(|tracks| tracks.is_chosen) {
        // CLIENT CACHING is about the first request only.
        return;
    }
    let mut parser = Parser::default();
    state.rides = true;
    for _ in 0..requests_max {
        if host.commit_is_full() {
            break;
        }
        let length = match parser.advance(input, bounds) {
            Parsed::Nothing(length) => length,
            Parsed::Request(length) => {
                let arguments: Arguments<'_> = parser.arguments(input).collect();
                let name = lookup::command(arguments[0]);
                let (random, end) = (state.random, encoder.out.len());
                respond(state, name, &arguments, length, encoder, host);
                match state.begun.take() {
                    Some(Unfinished::Commit { goes_on: true }) => length,
                    _ => {
                        // It is run as if this were the first time.
                        encoder.truncate(end);
                        state.random = random;
                        break;
                    }
                }
            }
            Parsed::Incomplete(_) | Parsed::Broken(_) | Parsed::Http => break,
        };
        input = &input[length..];
    }
    state.rides = false;
}
