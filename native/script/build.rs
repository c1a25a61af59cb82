//! Compiles the interpreter in `lua`.

use std::path::Path;

fn main() {
    let folder = Path::new("lua");
    println!("cargo:rerun-if-changed=lua");
    let mut sources: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of the interpreter")
        .map(|entry| entry.expect("a file of the interpreter").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    let mut build = cc::Build::new();
    build.files(sources).include(folder).warnings(false).opt_level(2).flag_if_supported("-fwrapv");
    // Errors of Lua jump, and need not save the signals of the thread.
    build.define("LUA_USE_ULONGJMP", None);
    build.cargo_metadata(false).compile("todana_lua");
    let output = std::env::var("OUT_DIR").expect("the folder of the output");
    println!("cargo:rustc-link-search=native={output}");
    // All of it: the binding, which refers to it, may come later on the linker's command line.
    println!("cargo:rustc-link-lib=static:+whole-archive=todana_lua");
}
