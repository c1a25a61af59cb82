//! COMMAND: returns the command table to clients.

use super::call::{Call, Done};
use super::encoder::Encoder;
use super::flow::Flow;
use super::lookup::{self, subcommands};
use super::pattern::{self, Names};
use super::request::SYNTAX;
use super::sort;
use super::spec::{CATEGORIES, CONTAINER, DEPRECATED, MODULE, OVERWRITE, OWN, Spec};
use super::syntax;
use super::table::{NAMES, Name};
use crate::Host;

/// The commands that are not subcommands.
fn commands() -> impl Iterator<Item = Name> {
    NAMES.iter().copied().filter(|name| name.spec().container().is_none())
}

/// Maximum number of names for COMMAND INFO, which returns a name each time it is given.
const INFO_NAMES_MAX: usize = 1024;

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn command_count(&mut self) -> Done {
        self.encoder.count(commands().count() as u64);
        Ok(Flow::Continue)
    }

    pub(super) fn command_info(&mut self) -> Done {
        let names = self.arguments.get(2..).unwrap_or_default();
        if names.is_empty() {
            self.encoder.array(commands().count());
            commands().for_each(|name| write_row(name, self.encoder));
            return Ok(Flow::Continue);
        }
        if names.len() > INFO_NAMES_MAX {
            return Err(format!("ERR more than {INFO_NAMES_MAX} names").into());
        }
        self.encoder.array(names.len());
        for name in names {
            match lookup::by_full_name(name) {
                Some(name) => write_row(name, self.encoder),
                None => self.encoder.null(),
            }
            if self.encoder.overflowed {
                break;
            }
        }
        Ok(Flow::Continue)
    }

    pub(super) fn command_docs(&mut self) -> Done {
        let names: Vec<Name> = match &self.arguments[2..] {
            [] => commands().collect(),
            names => lookup::distinct(names),
        };
        self.encoder.map(names.len());
        for name in names {
            documented(name, self.encoder);
            if self.encoder.overflowed {
                break;
            }
        }
        Ok(Flow::Continue)
    }

    pub(super) fn command_list(&mut self) -> Done {
        let names: Vec<&str> = match self.arguments[2..] {
            [] => NAMES.iter().map(|name| name.spec().name).collect(),
            [filter, by, what] if filter.eq_ignore_ascii_case(b"filterby") => {
                // With a filter, the list includes subcommands.
                let all = NAMES.iter().map(|name| name.spec());
                match by.to_ascii_lowercase().as_slice() {
                    b"module" => {
                        let asked = what.eq_ignore_ascii_case(MODULE.as_bytes());
                        all.filter(|spec| asked && spec.is(OWN)).map(|spec| spec.name).collect()
                    }
                    b"aclcat" => {
                        let category =
                            CATEGORIES.iter().find(|it| it.as_bytes().eq_ignore_ascii_case(what));
                        let belongs = |spec: &&Spec| {
                            category.is_some_and(|it| spec.categories().contains(it))
                        };
                        all.filter(belongs).map(|spec| spec.name).collect()
                    }
                    b"pattern" => {
                        pattern::check(what)?;
                        let wanted = Names::new(what);
                        all.filter(|spec| wanted.hold(spec.name)).map(|spec| spec.name).collect()
                    }
                    _ => return Err(SYNTAX),
                }
            }
            _ => return Err(SYNTAX),
        };
        self.encoder.array(names.len());
        names.iter().for_each(|name| self.encoder.text(name));
        Ok(Flow::Continue)
    }

    pub(super) fn command_get_keys(&mut self, with_flags: bool) -> Done {
        let request = &self.arguments[2..];
        let mut name = lookup::command(request[0]).ok_or("ERR Invalid command specified")?;
        if name.spec().is(CONTAINER) {
            let word = request.get(1).copied().unwrap_or_default();
            name = lookup::subcommand(name, word).ok_or("ERR Invalid command specified")?;
        }
        let spec = name.spec();
        if spec.keys.is_empty() {
            return Err("ERR The command has no key arguments".into());
        }
        if !spec.takes(request.len()) {
            return Err("ERR Invalid number of arguments specified for command".into());
        }
        let mut keys: Vec<_> = spec.keys_in(request).collect();
        if name == Name::Sort {
            keys.extend(sort::stored_at(request).map(|at| (at, OVERWRITE[0].access)));
        }
        self.encoder.array(keys.len());
        let reads = request.iter().skip(3).any(|option| option.eq_ignore_ascii_case(b"get"));
        for (at, access) in keys {
            let access: &[&str] = match name {
                Name::Set if reads => &["RW", "access", "update"],
                Name::Set => &["OW", "update"],
                _ => access,
            };
            if with_flags {
                self.encoder.array(2);
            }
            self.encoder.bulk(request[at]);
            if with_flags {
                self.encoder.set(access.len());
                access.iter().for_each(|access| self.encoder.simple(access));
            }
        }
        Ok(Flow::Continue)
    }
}

/// Writes one command in the format of COMMAND INFO.
fn write_row(name: Name, encoder: &mut Encoder<'_>) {
    let spec = name.spec();
    let (first, last, step) = spec.key_positions();
    encoder.array(10);
    encoder.text(spec.name);
    encoder.integer(i64::from(spec.arity));
    let flags: Vec<&str> = spec.flag_names().collect();
    encoder.set(flags.len());
    flags.iter().for_each(|flag| encoder.simple(flag));
    encoder.integer(first);
    encoder.integer(last);
    encoder.integer(step);
    let categories = spec.categories();
    encoder.set(categories.len());
    categories.iter().for_each(|category| encoder.simple(&format!("@{category}")));
    let tips: Vec<&str> = spec.tips().collect();
    encoder.set(tips.len());
    tips.iter().for_each(|tip| encoder.text(tip));
    encoder.set(spec.keys.len());
    for keys in spec.keys {
        encoder.map(3);
        encoder.text("flags");
        encoder.set(keys.access.len());
        keys.access.iter().for_each(|access| encoder.simple(access));
        encoder.text("begin_search");
        encoder.map(2);
        encoder.text("type");
        encoder.text("index");
        encoder.text("spec");
        encoder.map(1);
        encoder.text("index");
        let begin = if keys.counted == 0 { keys.first } else { keys.counted };
        encoder.integer(begin as i64);
        encoder.text("find_keys");
        encoder.map(2);
        encoder.text("type");
        encoder.text(if keys.counted == 0 { "range" } else { "keynum" });
        encoder.text("spec");
        encoder.map(3);
        let numbers = match keys.counted {
            0 => [("lastkey", i64::from(keys.last)), ("keystep", keys.step as i64), ("limit", 0)],
            _ => [("keynumidx", 0), ("firstkey", 1), ("keystep", keys.step as i64)],
        };
        for (name, number) in numbers {
            encoder.text(name);
            encoder.integer(number);
        }
    }
    let subcommands: Vec<Name> = subcommands(name).collect();
    if subcommands.is_empty() {
        encoder.set(0)
    } else {
        encoder.array(subcommands.len())
    }
    subcommands.into_iter().for_each(|name| write_row(name, encoder));
}

/// Writes one command in the format of COMMAND DOCS: its name, then a map.
fn documented(name: Name, encoder: &mut Encoder<'_>) {
    let spec = name.spec();
    let arguments = syntax::parse(spec.syntax);
    let subcommands: Vec<Name> = subcommands(name).collect();
    let deprecated = spec.is(DEPRECATED);
    let optional = [
        !spec.cost.is_empty(),
        spec.is(OWN),
        deprecated,
        !arguments.is_empty(),
        !subcommands.is_empty(),
    ];
    encoder.text(spec.name);
    encoder.map(3 + optional.iter().filter(|it| **it).count());
    encoder.text("summary");
    encoder.text(spec.summary);
    encoder.text("since");
    encoder.text(spec.since);
    encoder.text("group");
    encoder.text(spec.group.name());
    if !spec.cost.is_empty() {
        encoder.text("complexity");
        encoder.text(spec.cost);
    }
    if spec.is(OWN) {
        encoder.text("module");
        encoder.text(MODULE);
    }
    if deprecated {
        encoder.text("doc_flags");
        encoder.set(1);
        encoder.simple("deprecated");
    }
    if !arguments.is_empty() {
        encoder.text("arguments");
        syntax::encode(&arguments, encoder);
    }
    if !subcommands.is_empty() {
        encoder.text("subcommands");
        encoder.map(subcommands.len());
        subcommands.into_iter().for_each(|name| documented(name, encoder));
    }
}
