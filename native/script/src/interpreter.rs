//! An interpreter that begins each run in the same way.
//!
//! What all scripts have in common is made once, and so is a known script: then the memory of the
//! interpreter is copied. A run begins with a copy of it, at the same addresses, so it does not
//! depend on what ran before.

use crate::heap::Counts;
use crate::job::{Job, Stop};
use crate::lua::{Error, Function, Lua, Place, Result};
use crate::meter;
use crate::prelude::{SCRIPT_NAME, prelude};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are compared and copied at once.
const LINE: usize = 64;

/// The longest image of a script.
const SCRIPT_BYTES_MAX: usize = 2 << 20;

/// The numbers of objects that earlier versions had made before the environment and before the
/// words of a script. Scripts see them in `tostring`, and in the order of tables whose keys are
/// objects.
const SERIAL_BEFORE: u32 = 213;
const SERIAL: u32 = 346;

/// What earlier versions counted of a script's memory before it began.
const FORMER_BYTES: usize = 17_371;

/// Steps for a byte of source: its compilation takes time too.
pub(crate) const SOURCE_BYTE_STEPS: u64 = 1;

/// A script whose compiled source is kept, until others need the room.
#[derive(Debug)]
pub struct CompiledScript(u64);

impl Default for CompiledScript {
    fn default() -> CompiledScript {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        CompiledScript(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The memory of the interpreter without a script.
struct Image {
    bytes: Box<[u8]>,
    counts: Counts,
}

/// How the memory with a script differs from that.
struct Script {
    /// Where lines that differ are, in lines, and what is there.
    places: Box<[u32]>,
    lines: Box<[u8]>,
    /// The memory after the image.
    rest: Box<[u8]>,
    counts: Counts,
    /// Steps of the compilation, beside those for the length of the source.
    steps: u64,
    /// The last use.
    used: u64,
}

impl Script {
    fn bytes(&self) -> usize {
        size_of::<Script>() + 4 * self.places.len() + self.lines.len() + self.rest.len()
    }
}

/// What a run begins with.
pub(crate) enum Prepared {
    /// The script.
    Script(Place),
    /// The source is none: the error for the client.
    Wrong(Vec<u8>),
    /// The script was stopped before it began, with the steps that it took.
    Stopped(Stop, u64),
    Failed(Error),
}

/// What a client gets for a text that is no script.
fn syntax(message: &str) -> Vec<u8> {
    format!("ERR Error compiling script (new function): {message}").into_bytes()
}

/// Why a source was not compiled.
enum Uncompiled {
    Stopped(Stop),
    Wrong(Error),
}

/// The most steps of making the strings of a script's words.
fn strings_steps(job: &Job<'_>) -> u64 {
    /// Bytes of a string beside its own, at most.
    const STRING_BYTES: usize = 48;
    let of = |len: usize| 4 + (len + STRING_BYTES) as u64 / 16;
    let words = job.keys.iter().chain(job.arguments).map(|word| of(word.len()));
    // And the names of the two lists.
    words.sum::<u64>() + 2 * of(4)
}

/// An interpreter, and the images of its memory.
pub(crate) struct Interpreter {
    lua: Box<Lua>,
    /// Runs a script in its environment.
    driver: Place,
    secret: u64,
    image: Image,
    scripts: HashMap<u64, Script>,
    scripts_bytes: usize,
    clock: u64,
}

impl Interpreter {
    /// An interpreter for scripts of at most `bytes_max` bytes, with the secret of now.
    pub(crate) fn new(bytes_max: usize) -> Result<Interpreter> {
        let secret = meter::secret();
        let mut lua = Lua::new(bytes_max)?;
        lua.set_serial(SERIAL_BEFORE);
        let driver = prelude(&lua)?.keep();
        lua.seal(SERIAL)?;
        let heap = lua.heap();
        heap.counts.peak = heap.counts.used;
        // Whole lines: what comes after the used part is not read before it is written.
        let len = heap.len().next_multiple_of(LINE);
        let bytes = heap.bytes(len).into();
        let image = Image { bytes, counts: heap.counts };
        let (scripts, scripts_bytes, clock) = (HashMap::new(), 0, 0);
        Ok(Interpreter { lua, driver, secret, image, scripts, scripts_bytes, clock })
    }

    /// Whether it hashes with the secret of now, and is large enough.
    pub(crate) fn fits(&mut self, bytes_max: usize) -> bool {
        self.secret == meter::secret() && self.lua.heap().fits(bytes_max)
    }

    pub(crate) fn lua(&self) -> &Lua {
        &self.lua
    }

    pub(crate) fn driver(&self) -> &Place {
        &self.driver
    }

    /// Bytes of the images of scripts.
    pub(crate) fn scripts_bytes(&self) -> usize {
        self.scripts_bytes
    }

    /// Bytes that it has of the system, at most.
    pub(crate) fn bytes(&mut self) -> usize {
        self.lua.heap().usable() + self.image.bytes.len() + self.scripts_bytes
    }

    /// Forgets the scripts whose last use is the longest ago, until they have at most this many
    /// bytes.
    pub(crate) fn forget(&mut self, bytes_max: usize) {
        if self.scripts_bytes <= bytes_max {
            return;
        }
        let mut uses: Vec<_> = self.scripts.iter().map(|(id, it)| (it.used, *id)).collect();
        uses.sort_unstable();
        for (_, id) in uses {
            if self.scripts_bytes <= bytes_max {
                return;
            }
            if let Some(script) = self.scripts.remove(&id) {
                self.scripts_bytes -= script.bytes();
            }
        }
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn check(&mut self) {
        self.lua.heap().check();
    }

    /// Gives back what only a large script needed, before the interpreter waits for another.
    pub(crate) fn rest(&mut self) {
        /// Bytes that it may have meanwhile.
        const RESTING_BYTES: usize = 2 << 20;
        if self.lua.heap().usable() > RESTING_BYTES {
            self.restore();
        }
    }

    /// Makes the memory that without a script.
    fn restore(&mut self) {
        let counts = self.image.counts;
        if let Some(bytes) = self.lua.heap().overwrite(self.image.bytes.len()) {
            bytes.copy_from_slice(&self.image.bytes);
            self.lua.heap().restored(counts);
            self.lua.restored();
        }
    }

    /// Makes the memory that of a script which begins: compiled, and with its words.
    pub(crate) fn prepare(
        &mut self,
        source: &[u8],
        job: &Job<'_>,
        known: Option<&CompiledScript>,
    ) -> Prepared {
        let limits = job.limits;
        let of_source = source.len() as u64 * SOURCE_BYTE_STEPS;
        if of_source > limits.steps {
            return Prepared::Stopped(Stop::Steps, limits.steps);
        }
        let budget = limits.steps - of_source;
        // Strings of the words, which are counted with the source although earlier versions had
        // them before it, are taken off later.
        let slack = strings_steps(job);
        let bytes = limits.bytes.saturating_sub(FORMER_BYTES);
        let most = self.image.counts.used.saturating_add(bytes);
        let id = known.map(|known| known.0);
        let compiled = match id.is_some_and(|id| self.restore_script(id, budget, slack, most)) {
            true => Ok(self.lua.loaded()),
            false => self.compile(source, budget, slack, most, id),
        };
        let (compiled, peak) = match compiled {
            Ok(compiled) => (compiled, self.lua.heap().counts.peak),
            Err(Uncompiled::Stopped(why)) => {
                return Prepared::Stopped(why, self.taken(limits.steps));
            }
            Err(Uncompiled::Wrong(Error::Syntax(message))) => {
                let peak = self.lua.heap().counts.peak;
                return self.words(job, most, peak, Prepared::Wrong(syntax(&message)));
            }
            Err(Uncompiled::Wrong(error)) => return Prepared::Failed(error),
        };
        let Some(script) = compiled else {
            return Prepared::Failed(Error::Other("no reference is left".to_owned()));
        };
        self.words(job, most, peak, Prepared::Script(script))
    }

    fn taken(&self, steps: u64) -> u64 {
        steps.saturating_sub(u64::try_from(meter::left(&self.lua)).unwrap_or(0))
    }

    /// Adds the words of the script, as if they had been there before it was compiled.
    fn words(&mut self, job: &Job<'_>, most: usize, peak: usize, prepared: Prepared) -> Prepared {
        let before = self.lua.heap().counts.used;
        match self.lua.set_words(SERIAL, job.keys, job.arguments) {
            Ok(()) => {}
            Err(error) => {
                return match meter::stopped(&self.lua) {
                    Some(why) => Prepared::Stopped(why, 0),
                    None => Prepared::Failed(error),
                };
            }
        }
        let words = self.lua.heap().counts.used - before;
        if peak.saturating_add(words) > most {
            return Prepared::Stopped(Stop::Memory, self.taken(job.limits.steps));
        }
        if meter::left(&self.lua) < 0 {
            return Prepared::Stopped(Stop::Steps, job.limits.steps);
        }
        prepared
    }

    /// Makes the memory that of a script that is known, if the limits allow its compilation: with
    /// others it has to be stopped, and this happens where it is compiled.
    fn restore_script(&mut self, id: u64, budget: u64, slack: u64, most: usize) -> bool {
        self.clock += 1;
        let clock = self.clock;
        let Some(script) = self.scripts.get_mut(&id) else { return false };
        if script.steps > budget.saturating_add(slack) || script.counts.peak > most {
            return false;
        }
        script.used = clock;
        let len = self.image.bytes.len();
        let heap = self.lua.heap();
        // More may be usable from now on: the limit that counts is set later.
        heap.limit(usize::MAX);
        let Some(memory) = heap.overwrite(len + script.rest.len()) else { return false };
        memory[..len].copy_from_slice(&self.image.bytes);
        memory[len..].copy_from_slice(&script.rest);
        for (place, line) in script.places.iter().zip(script.lines.chunks_exact(LINE)) {
            let at = *place as usize * LINE;
            memory[at..at + LINE].copy_from_slice(line);
        }
        heap.restored(script.counts);
        heap.limit(most);
        let steps = script.steps;
        self.lua.restored();
        meter::set(&self.lua, budget);
        meter::spend(&self.lua, steps);
        true
    }

    /// Compiles a script in the memory without one, and keeps what became of the memory.
    fn compile(
        &mut self,
        source: &[u8],
        budget: u64,
        slack: u64,
        most: usize,
        id: Option<u64>,
    ) -> std::result::Result<Option<Place>, Uncompiled> {
        self.restore();
        self.lua.heap().limit(most);
        self.lua.prepare();
        let all = budget.saturating_add(slack);
        meter::set(&self.lua, all);
        let compiled = self.lua.load(source, SCRIPT_NAME).map(Function::keep);
        let stopped = meter::stopped(&self.lua);
        let steps = all.saturating_sub(u64::try_from(meter::left(&self.lua)).unwrap_or(0));
        meter::spend(&self.lua, slack);
        let place = match (stopped, compiled) {
            (Some(why), _) => return Err(Uncompiled::Stopped(why)),
            (None, Ok(place)) => place,
            (None, Err(Error::Memory)) => return Err(Uncompiled::Stopped(Stop::Memory)),
            (None, Err(error)) => return Err(Uncompiled::Wrong(error)),
        };
        if let Some(id) = id {
            self.note(id, steps);
        }
        Ok(Some(place))
    }

    /// Keeps the memory with a script.
    fn note(&mut self, id: u64, steps: u64) {
        let image = &self.image.bytes;
        let heap = self.lua.heap();
        let (len, counts) = (heap.len().max(image.len()), heap.counts);
        if len - image.len() > SCRIPT_BYTES_MAX {
            return;
        }
        let (now, rest) = heap.bytes(len).split_at(image.len());
        let (mut places, mut lines) = (Vec::new(), Vec::new());
        let both = now.chunks(LINE).zip(image.chunks(LINE));
        for (place, (now, image)) in both.enumerate() {
            if now != image {
                places.push(place as u32);
                lines.extend_from_slice(now);
            }
        }
        let script = Script {
            places: places.into(),
            lines: lines.into(),
            rest: rest.into(),
            counts,
            steps,
            used: self.clock,
        };
        self.scripts_bytes += script.bytes();
        if let Some(before) = self.scripts.insert(id, script) {
            self.scripts_bytes -= before.bytes();
        }
    }
}
