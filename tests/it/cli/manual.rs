//! `tollgate completions` and `tollgate man`: what other programs say about their output.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use crate::support::process::{TempFolder, done, run, tollgate};

/// Runs a checking program with a text on standard input; `None` if it is not installed.
fn checked(program: &str, arguments: &[&str], text: &str) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_completions_of_bash_complete_commands_verbs_and_values() {
    let script = done(&["completions", "bash"]).await;
    let syntax = checked("bash", &["-n"], &script).expect("bash is installed");
    assert_eq!((syntax.status.success(), &*said(&syntax)), (true, ""));
    // Completes the last word of a line as bash would.
    let complete = |line: &str| {
        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
        let (words, last) = (words.join(" "), words.len() - 1);
        let test = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD={last}\n\
             _tollgate tollgate \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last}-1]}}\"\n\
             echo \"${{COMPREPLY[@]}}\"\n"
        );
        let output = checked("bash", &["--norc", "-s"], &test).unwrap();
        assert!(output.status.success(), "{line}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("tollgate check-c"), "check-config");
    assert_eq!(complete("tollgate health --serv"), "--service --server");
    assert_eq!(complete("tollgate stock conf"), "confirm");
    assert_eq!(complete("tollgate lock --if-lost "), "term ignore");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shell_has_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = done(&["completions", shell]).await;
        assert!(script.contains("check-config"), "{shell}: {script}");
        if let Some(syntax) = Some(shell).filter(|it| ["fish", "zsh"].contains(it)) {
            let output = checked(syntax, &["-n"], &script);
            assert!(output.is_none_or(|output| output.status.success()), "{shell}");
        }
    }
    assert_eq!(run(&["completions", "tcsh"]).await.status.code(), Some(64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_write_of_completions_is_reported() {
    let mut command = tollgate(&["completions", "bash"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(74), "{}", said(&output));
}

/// Returns the names after `Commands:` of a help text.
async fn commands(help: &[&str]) -> Vec<String> {
    let help = done(help).await;
    let (_, list) = help.split_once("ommands:\n").expect("a list of commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_has_a_manual_page_without_warnings() {
    let folder = TempFolder::new();
    let told = done(&["man", folder.text()]).await;
    let mut pages: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    assert_eq!(told, format!("wrote {} pages to {}\n", pages.len(), folder.text()));
    for name in commands(&["--help"]).await.iter().filter(|name| *name != "help") {
        assert!(pages.contains(&format!("tollgate-{name}.1")), "{name} is not in {pages:?}");
    }
    assert!(pages.contains(&"tollgate.1".to_owned()), "{pages:?}");
    assert!(pages.contains(&"tollgate-stock-reserve.1".to_owned()), "{pages:?}");
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");

    for page in &pages {
        let text = fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
        for (program, arguments) in
            [("groff", &["-man", "-ww", "-z", "-Tutf8"][..]), ("mandoc", &["-Tlint", "-Wwarning"])]
        {
            if let Some(output) = checked(program, arguments, &text) {
                assert_eq!((output.status.success(), &*said(&output)), (true, ""), "{page}");
            }
        }
    }
    let rate = fs::read_to_string(folder.path().join("tollgate-rate.1")).unwrap();
    for part in ["TOLLGATE_SERVER", "tollgate rate user:17", "\\-\\-warn\\-above"] {
        assert!(rate.contains(part), "{part:?} is not in {rate}");
    }
    // The same program writes the same pages.
    let again = TempFolder::new();
    done(&["man", again.text()]).await;
    for page in pages {
        let [one, two] = [&folder, &again].map(|it| fs::read(it.path().join(&page)).unwrap());
        assert!(one == two, "{page} differs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn manual_pages_that_cannot_be_written_are_named() {
    let output = run(&["man", "/dev/null/man1"]).await;
    assert_eq!(output.status.code(), Some(74));
    assert!(said(&output).contains("cannot write /dev/null/man1"), "{}", said(&output));
}
