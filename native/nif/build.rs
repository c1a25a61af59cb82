//! Links the library so that it stays in memory once it is loaded, and so that the BEAM provides
//! the `enif_*` functions.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => println!("cargo:rustc-cdylib-link-arg=-Wl,-undefined,dynamic_lookup"),
        // Tables live in this library's memory: purging the Erlang module must not unmap it.
        _ => println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete"),
    }
}
