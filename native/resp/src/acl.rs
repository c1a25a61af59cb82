//! ACL: the only user, `default`, who may do everything.

use super::call::{Call, Done};
use super::client::USER;
use super::encoder::Failure;
use super::flow::Flow;
use super::spec::CATEGORIES;
use super::table::TABLE;
use crate::Host;

/// What the user may do, in the words of Redis.
const COMMANDS: &str = "+@all";
const KEYS: &str = "~*";
const CHANNELS: &str = "&*";

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn acl_who_am_i(&mut self) -> Done {
        self.encoder.text(USER);
        Ok(Flow::Continue)
    }

    pub(super) fn acl_users(&mut self) -> Done {
        self.encoder.array(1);
        self.encoder.text(USER);
        Ok(Flow::Continue)
    }

    /// The flags of the user. A password is not shown.
    fn user_flags(&self) -> &'static [&'static str] {
        match self.host.requires_password() {
            true => &["on", "sanitize-payload"],
            false => &["on", "nopass", "sanitize-payload"],
        }
    }

    pub(super) fn acl_list(&mut self) -> Done {
        let flags = self.user_flags().join(" ");
        self.encoder.array(1);
        self.encoder.text(&format!("user {USER} {flags} {KEYS} {CHANNELS} {COMMANDS}"));
        Ok(Flow::Continue)
    }

    pub(super) fn acl_get_user(&mut self) -> Done {
        if self.argument(2) != USER.as_bytes() {
            self.encoder.null();
            return Ok(Flow::Continue);
        }
        let flags = self.user_flags();
        let encoder = &mut *self.encoder;
        encoder.map(6);
        encoder.text("flags");
        encoder.array(flags.len());
        flags.iter().for_each(|flag| encoder.text(flag));
        encoder.text("passwords");
        encoder.array(0);
        for (name, value) in [("commands", COMMANDS), ("keys", KEYS), ("channels", CHANNELS)] {
            encoder.text(name);
            encoder.text(value);
        }
        encoder.text("selectors");
        encoder.array(0);
        Ok(Flow::Continue)
    }

    pub(super) fn acl_set_user(&mut self) -> Done {
        Err("ERR there is only the user 'default', whose password is an option of the server"
            .into())
    }

    /// The categories, or the commands of one.
    pub(super) fn acl_categories(&mut self) -> Done {
        let Some(wanted) = self.arguments.get(2) else {
            self.encoder.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|category| self.encoder.text(category));
            return Ok(Flow::Continue);
        };
        if self.arguments.len() > 3 {
            return Err(super::request::wrong_arity(self.name));
        }
        let known = |category: &&&str| category.as_bytes().eq_ignore_ascii_case(wanted);
        let Some(category) = CATEGORIES.iter().find(known) else {
            return Err(Failure::quoting("ERR Unknown category '", wanted, "'"));
        };
        let belongs = |spec: &&super::spec::Spec| spec.categories().contains(category);
        let names: Vec<&str> = TABLE.iter().filter(belongs).map(|spec| spec.name).collect();
        self.encoder.array(names.len());
        names.iter().for_each(|name| self.encoder.text(name));
        Ok(Flow::Continue)
    }
}
