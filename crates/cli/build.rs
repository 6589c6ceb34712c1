//! Compiles the contract to descriptors, from which the commands format messages as JSON.

use std::{env, error::Error, fs, path::PathBuf};

const PROTO: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}/tollgate");
    let mut files = Vec::new();
    for entry in fs::read_dir(format!("{PROTO}/tollgate/v1"))? {
        files.push(entry?.path());
    }
    files.sort();
    let mut compiler = protox::Compiler::new([PROTO])?;
    compiler.include_imports(true).open_files(files)?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(out, compiler.encode_file_descriptor_set())?;
    Ok(())
}
