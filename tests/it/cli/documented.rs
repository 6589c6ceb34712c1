//! Runs the commands in ```` ```console ```` blocks of `docs/`, `examples/` and the README, and
//! compares each answer with the text below the command. The server's configuration is the text of
//! the ```` ```toml ```` blocks.
//!
//! `TOLLGATE_TEST_BLESS=1` writes the current answers into the documents instead.

mod varying;

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use tollgate_client::pb;

use crate::support::{
    process::{Server, TempFile},
    world::admit,
};
use varying::{Varying, clock, masked};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The server's address in the documents.
const ADDRESS: &str = "127.0.0.1:50051";

#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_commands_answer_as_documented() {
    let Some(grpcurl) = tool("TOLLGATE_TEST_GRPCURL", "grpcurl") else {
        return skipped("no grpcurl; ./tests/run.sh all installs it");
    };
    for (file, least) in [
        ("docs/admission.md", 20),
        ("docs/rates.md", 15),
        ("docs/sequences.md", 18),
        ("docs/locks.md", 12),
        ("docs/stock.md", 22),
        ("docs/queued-tasks.md", 17),
        ("docs/watching.md", 5),
        ("README.md", 2),
    ] {
        let text = fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
        let configuration = TempFile::new(&configuration(&text));
        let server = Server::start(&["--config", configuration.path()]).await;
        let program = ("grpcurl ", grpcurl.as_path());
        let run = Document { file, program, compared: |text| text.to_owned() }.play(&server);
        assert!(run >= least, "{file}: ran only {run} commands, expected at least {least}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_examples_print_the_documented_output() {
    let Some(python) = tool("TOLLGATE_TEST_PYTHON", "python3") else {
        return skipped("no python3");
    };
    let packages = Command::new(&python).args(["-c", "import tollgate"]).output();
    let packages = packages.is_ok_and(|output| output.status.success());
    if !packages {
        return skipped("no Python with the library tollgate; ./tests/run.sh all installs it");
    }
    let server = Server::start(&[]).await;
    let document = Document {
        file: "examples/python/README.md",
        program: (".venv/bin/python ", &python),
        // The answers of the backend come in any order: only the lines below their summary are
        // compared.
        compared: |text| match text.split_once("\nanswers: ") {
            Some((_, end)) => end.lines().skip(1).collect::<Vec<_>>().join("\n"),
            None => text.to_owned(),
        },
    };
    assert_eq!(document.play(&server), 2);

    let mut client = server.client().await;
    let request = pb::GetPoolRequest { pool: "python-example".into() };
    let pool = client.get_pool(request).await.unwrap().into_inner().pool.unwrap();
    let usage = pool.usage.unwrap();
    assert_eq!((usage.capacity, usage.in_use), (2, 0));
    let request = admit("python-example", "device-3", "task-2");
    let response = client.admit_task(request).await.unwrap().into_inner();
    assert_eq!(response.decision(), pb::AdmitDecision::AlreadyCompleted);
}

/// A document with commands of one program, and a function that selects the compared text.
struct Document<'a> {
    file: &'a str,
    /// The program's name in the document, and its path.
    program: (&'a str, &'a Path),
    compared: fn(&str) -> String,
}

/// A command, its line and the documented answer.
#[derive(Default)]
struct Step {
    line: usize,
    command: String,
    documented: String,
}

impl Document<'_> {
    /// Runs the program's commands, and `sleep`, in the folder of the document. Returns their
    /// number.
    fn play(&self, server: &Server) -> usize {
        let path = Path::new(ROOT).join(self.file);
        let Ok(text) = fs::read_to_string(&path) else { return 0 };
        let address = format!("127.0.0.1:{}", server.port);
        // The run must start and end on the same day, since serials contain the date.
        while clock()[8..].starts_with("2359") {
            thread::sleep(Duration::from_secs(1));
        }
        let (mut varying, mut run) = (Varying::default(), 0);
        let (mut blessed, mut rest) = (String::new(), text.as_str());
        for step in steps(&text) {
            let Some(shell) = self.shell(&step.command) else { continue };
            let shell = varying.replace(&shell.replace(ADDRESS, &address));
            let output = Command::new("sh")
                .args(["-c", &format!("exec 2>&1\n{shell}")])
                .current_dir(path.parent().unwrap())
                .output()
                .unwrap();
            let answered = String::from_utf8_lossy(&output.stdout).replace(&address, ADDRESS);
            let answered = answered.trim_end();
            run += 1;

            varying.learn(&step.documented, answered);
            let command = varying.replace(&step.command);
            let written = format!("$ {}\n{}", step.command, step.documented);
            let (before, after) = rest.split_once(written.trim_end()).unwrap();
            blessed += &format!("{before}{}", format!("$ {command}\n{answered}").trim_end());
            rest = after;
            if bless() {
                continue;
            }
            let expected = varying.replace(&step.documented);
            // A stream ends by its deadline, with an error after its messages.
            let succeeds = !step.documented.lines().any(|line| line == "ERROR:");
            assert!(
                masked(&(self.compared)(&expected)) == masked(&(self.compared)(answered))
                    && output.status.success() == succeeds,
                "{}:{}: not what is documented ({}; TOLLGATE_TEST_BLESS=1 documents it)\n\n\
                 $ {command}\n{}",
                self.file,
                step.line,
                output.status,
                difference(&expected, answered),
            );
        }
        if bless() {
            fs::write(&path, blessed + rest).unwrap();
        }
        run
    }

    /// Returns the shell text of a command; `None` if it calls another program.
    fn shell(&self, command: &str) -> Option<String> {
        let (name, path) = self.program;
        match command.strip_prefix(name) {
            Some(arguments) => Some(format!("'{}' {arguments}", path.display())),
            None => command.starts_with("sleep ").then(|| command.to_owned()),
        }
    }
}

/// Returns the commands of all console blocks. Lines after a trailing backslash belong to the
/// command.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (line, content) in (1..).zip(text.lines()) {
        if content.starts_with("```") {
            inside = content == "```console";
            // Collects the text before the first command of a block.
            steps.push(Step::default());
        } else if let Some(step) = steps.last_mut().filter(|_| inside) {
            if let Some(command) = content.strip_prefix("$ ") {
                steps.push(Step { line, command: command.to_owned(), documented: String::new() });
            } else if step.command.ends_with('\\') {
                step.command += &format!("\n{content}");
            } else {
                step.documented += &format!("{content}\n");
            }
        }
    }
    for step in &mut steps {
        step.documented.truncate(step.documented.trim_end().len());
    }
    steps
}

/// Returns the lines of all toml blocks.
fn configuration(text: &str) -> String {
    let mut inside = false;
    let mut of_blocks = |line: &&str| {
        let fence = line.starts_with("```");
        inside = if fence { *line == "```toml" } else { inside };
        inside && !fence
    };
    text.lines().filter(|line| of_blocks(line)).map(|line| format!("{line}\n")).collect()
}

/// Returns a diff of two texts: `-` marks documented lines, `+` marks answered lines.
fn difference(documented: &str, answered: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (documented.lines().collect(), answered.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(old, new)| old == new).count()
    };
    let start = same(&mut old.iter().zip(&new));
    let end = same(&mut old[start..].iter().rev().zip(new[start..].iter().rev()));
    let lines = old[..start].iter().map(|line| format!("  {line}\n"));
    let lines = lines
        .chain(old[start..old.len() - end].iter().map(|line| format!("- {line}\n")))
        .chain(new[start..new.len() - end].iter().map(|line| format!("+ {line}\n")));
    lines.chain(old[old.len() - end..].iter().map(|line| format!("  {line}\n"))).collect()
}

fn bless() -> bool {
    env::var_os("TOLLGATE_TEST_BLESS").is_some()
}

/// Returns the path in an environment variable, else the path of a program on PATH.
fn tool(variable: &str, name: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).or_else(|| on_path(name))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Fails if tools are required. Writes directly to standard error: the test harness hides the output of passing tests.
fn skipped(why: &str) {
    let may_skip = env::var_os("TOLLGATE_TEST_REQUIRE_TOOLS").is_none();
    assert!(may_skip, "{why}, and TOLLGATE_TEST_REQUIRE_TOOLS is set");
    let _ = writeln!(io::stderr(), "skipped: {why}");
}
