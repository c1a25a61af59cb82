//! The state that the session's own commands use.

use super::encoder::{Encoder, Failure};
use super::flow::Flow;
use super::lookup::{self, subcommands};
use super::request::wrong_arity;
use super::state::State;
use super::table::Name;
use crate::Host;

/// The result of a command that the session executes itself. A failure is not yet written.
pub(super) type Done = Result<Flow, Failure>;

/// A request that the session executes itself.
pub(super) struct Call<'c, 'o, H> {
    pub(super) name: Name,
    pub(super) arguments: &'c [&'c [u8]],
    pub(super) state: &'c mut State,
    pub(super) encoder: &'c mut Encoder<'o>,
    pub(super) host: &'c mut H,
}

impl<'c, H: Host> Call<'c, '_, H> {
    pub(super) fn argument(&self, at: usize) -> &'c [u8] {
        self.arguments[at]
    }

    pub(super) fn ok(&mut self) -> Done {
        self.encoder.ok();
        Ok(Flow::Continue)
    }

    /// HELP: lists the subcommands of the command, with two lines for each.
    pub(super) fn help(&mut self) -> Done {
        let container = self.name.spec().container().and_then(|it| lookup::command(it.as_bytes()));
        let Some(container) = container else { return Err(wrong_arity(self.name)) };
        let title = container.spec().name.to_ascii_uppercase();
        let names: Vec<Name> = subcommands(container).collect();
        self.encoder.array(1 + 2 * names.len());
        let usage = "<subcommand> [<arg> [value] [opt] ...]. Subcommands are:";
        self.encoder.simple(&format!("{title} {usage}"));
        for name in names {
            let spec = name.spec();
            let word = spec.own_name().to_ascii_uppercase();
            let arguments = super::syntax::for_people(spec.syntax);
            self.encoder.simple(format!("{word} {arguments}").trim_end());
            self.encoder.simple(&format!("    {}", spec.summary));
        }
        Ok(Flow::Continue)
    }
}
