//! `tollgate completions` and `tollgate man`: generates completion scripts and manual pages from
//! the same definitions as `--help`.

use std::{fs, io, path::Path};

use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

/// Name of the program.
const PROGRAM: &str = "tollgate";

/// Returns the completion script of a shell.
pub(super) fn completions(mut command: Command, shell: Shell) -> String {
    // Generated in memory, because the generator panics if it writes to a closed pipe.
    let mut script = Vec::new();
    generate(shell, &mut command, PROGRAM, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes the manual pages of the command and of its visible subcommands into a folder. Returns the
/// number of pages. The error names the file.
pub(super) fn pages(command: &Command, folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
    write(command, folder)
}

fn write(command: &Command, folder: &Path) -> io::Result<usize> {
    let mut count = 1;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        // `help` only repeats what the other pages say.
        if verb.get_name() != "help" {
            count += write(verb, folder)?;
        }
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    let text = page(command, name)?;
    fs::write(&path, text).map_err(|error| named(&path, &error))?;
    Ok(count)
}

/// Renders a page. It has no date, so that builds of the same version generate identical pages.
fn page(command: &Command, name: &str) -> io::Result<String> {
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .source(format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION")))
        .manual("Tollgate");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = command.get_after_help() {
        let mut section = Roff::new();
        section.control("SH", ["NOTES"]);
        // Examples and tables keep their lines.
        section.control("nf", []);
        for line in notes.to_string().lines() {
            section.text([roman(line)]);
        }
        section.control("fi", []);
        section.to_writer(&mut page)?;
    }
    Ok(in_ascii(&String::from_utf8_lossy(&page)))
}

/// Escapes all other characters, so that a page reads the same in every locale.
fn in_ascii(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for char in page.chars() {
        if char.is_ascii() {
            text.push(char)
        } else {
            text += &format!("\\[u{:04X}]", u32::from(char))
        }
    }
    text
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}
