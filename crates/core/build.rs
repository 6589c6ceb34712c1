//! Builds the table of the scripts in `lua/`.

#[path = "src/wire/script/include.rs"]
mod include;

use std::{env, error::Error, fmt::Write, fs, path::PathBuf};

/// The scripts, from this folder.
const LUA: &str = "../../lua";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={LUA}");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("scripts.rs"), scripts()?)?;
    Ok(())
}

/// Returns the table of all scripts, as Rust.
fn scripts() -> Result<String, Box<dyn Error>> {
    let (mut code, mut all, mut open) = (String::new(), String::new(), String::new());
    for (index, script) in include::build(&lua_files()?)?.into_iter().enumerate() {
        let include::Built { name, keys, argv, repeated, shared, plain, .. } = &script;
        let include::Built { gives_tokens, checks_store, text, .. } = &script;
        let (folder, verb) = name.split_once('/').ok_or("a script outside a folder")?;
        if open != folder {
            let end = if open.is_empty() { "" } else { "}\n" };
            writeln!(code, "{end}/// The scripts of `lua/{folder}/`.\npub mod {folder} {{")?;
            writeln!(code, "use super::Script;")?;
            folder.clone_into(&mut open);
        }
        let verb = verb.to_uppercase();
        writeln!(code, "/// `lua/{name}.lua`\npub static {verb}: Script = Script {{")?;
        writeln!(
            code,
            "name: {name:?}, index: {index}, keys: {keys}, argv: {argv}, shared: {shared:?}, plain: {plain},"
        )?;
        write!(code, "repeated: {repeated}, checks_store: {checks_store}, ")?;
        writeln!(code, "gives_tokens: {gives_tokens}, text: {text:?} }};")?;
        write!(all, "&{folder}::{verb}, ")?;
    }
    writeln!(code, "}}\n/// All scripts.\npub static ALL: &[&Script] = &[{all}];")?;
    Ok(code)
}

fn lua_files() -> Result<include::Files, Box<dyn Error>> {
    let mut files = include::Files::new();
    for folder in fs::read_dir(LUA)?.collect::<Result<Vec<_>, _>>()? {
        if folder.file_type()?.is_dir() {
            for file in fs::read_dir(folder.path())?.collect::<Result<Vec<_>, _>>()? {
                let path = file.path().with_extension("");
                let name = path.strip_prefix(LUA)?.to_str().ok_or("a name that is not UTF-8")?;
                files.insert(name.to_owned(), fs::read_to_string(file.path())?);
            }
        }
    }
    Ok(files)
}
