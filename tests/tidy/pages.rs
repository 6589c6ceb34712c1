//! Pages name tests, files and functions that exist.

use std::{collections::BTreeSet, fs};

use crate::{files, root, sources};

/// Returns the id that a test's name starts with: `h13` of `h13_a_burst_…`, or of
/// `test_h13_a_burst_…` in Python.
fn scenario(test: &str) -> Option<&str> {
    let (id, _) = test.strip_prefix("test_").unwrap_or(test).split_once('_')?;
    let (letter, number) = id.split_at_checked(1)?;
    let is_id = "abcdehjs".contains(letter) && number.parse::<u32>().is_ok();
    is_id.then_some(id)
}

#[test]
fn every_scenario_names_its_tests() {
    let tests: BTreeSet<String> = ["src", "crates", "clients", "tests"]
        .into_iter()
        .flat_map(|folder| files(folder, "rs"))
        .map(|file| (file, "fn "))
        .chain(files("clients/scenarios", "py").into_iter().map(|file| (file, "def ")))
        .flat_map(|((_, text), start)| {
            let names = text.split(start).skip(1).filter_map(|rest| rest.split('(').next());
            names.filter(|name| scenario(name).is_some()).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let text = fs::read_to_string(root().join("tests/SCENARIOS.md")).unwrap();
    let (mut ids, mut listed) = (BTreeSet::new(), BTreeSet::new());
    for row in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| id ")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let (id, named) = (cells[0], cells[cells.len() - 1]);
        assert!(ids.insert(id.to_owned()), "scenario {id} is listed twice");
        let named: Vec<&str> = named.split("<br>").map(|name| name.trim_matches('`')).collect();
        for name in named {
            assert_eq!(
                scenario(name),
                Some(&*id.to_lowercase()),
                "{id}: `{name}` is a test of another scenario"
            );
            listed.insert(name.to_owned());
        }
    }
    let differ: Vec<&String> = tests.symmetric_difference(&listed).collect();
    assert!(differ.is_empty(), "only in the code, or only in tests/SCENARIOS.md: {differ:?}");
}

/// `--output json` of a command prints a message of the contract, which the page names.
#[test]
fn j33_the_page_of_commands_names_every_message_that_a_command_prints() {
    let page = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let table = page.split("\n## JSON").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut printed = BTreeSet::new();
    for (_, text) in files("crates/cli/src", "rs").into_iter().chain(files("src/cli", "rs")) {
        for call in [".json(\"", "output.print(\"", "PrintedList { message: \""] {
            let names = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
            printed.extend(names.map(str::to_owned));
        }
    }
    assert!(printed.len() > 20, "{printed:?}");
    let words: BTreeSet<&str> = table.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let missing: Vec<&String> = printed.iter().filter(|name| !words.contains(&***name)).collect();
    assert!(missing.is_empty(), "docs/commands.md lacks {missing:?}");
    assert!(!page.contains("print text only"), "every command that prints a result prints JSON");
}

#[test]
fn j33_the_page_lists_the_folders_in_the_order_of_their_dependencies() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| [")?.split_once("](../src/"));
    let listed: Vec<&str> = rows.map(|(folder, _)| folder).collect();
    assert_eq!(listed, crate::FOLDERS.map(|(folder, _)| folder));
}

#[test]
fn j33_the_reasons_of_the_lints_name_files_that_exist() {
    let lints = fs::read_to_string(root().join(".clippy.toml")).unwrap();
    let paths = lints.split_whitespace().filter(|word| word.contains("src/"));
    let missing: Vec<&str> = paths.filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Returns the links of a text to files: the text of each link, and its path without the anchor.
fn links(text: &str) -> Vec<(&str, &str)> {
    let links = text.split("](").zip(text.split("](").skip(1)).map(|(before, after)| {
        let name = before.rsplit('[').next().unwrap();
        (name, after.split([')', '#']).next().unwrap())
    });
    links.filter(|(_, path)| !path.is_empty() && !path.contains("://")).collect()
}

#[test]
fn pages_name_files_that_exist() {
    let folders = ["docs", "lua", "deploy", "benches", "clients"];
    let mut pages: Vec<_> = folders.iter().flat_map(|folder| files(folder, "md")).collect();
    for page in ["README.md", "CONTRIBUTING.md", "tests/SCENARIOS.md"] {
        pages.push((page.into(), fs::read_to_string(root().join(page)).unwrap()));
    }
    for (page, text) in pages {
        let folder = root().join(page.parent().unwrap());
        for (_, path) in links(&text) {
            assert!(folder.join(path).exists(), "{} links {path}", page.display());
        }
        // Paths in backticks. `<capability>` stands for a name.
        let is_path = |name: &&str| name.split_once('/').is_some_and(|(top, _)| is_folder(top));
        let named = text.split('`').skip(1).step_by(2).filter(is_path);
        for path in named.filter(|path| page.starts_with("CONTRIBUTING.md") && !path.contains('<'))
        {
            assert!(root().join(path).exists(), "{} names {path}", page.display());
        }
    }
}

/// Returns the anchors of a page's headings, as GitHub forms them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let letters = heading.trim_start_matches('#').trim().chars();
        let kept = letters.filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_to_headings_that_exist() {
    let mut found = 0;
    let folders = ["docs", "lua", "deploy", "benches", "clients"];
    let mut pages: Vec<_> = folders.iter().flat_map(|folder| files(folder, "md")).collect();
    for page in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/SCENARIOS.md"] {
        pages.push((page.into(), fs::read_to_string(root().join(page)).unwrap()));
    }
    for (page, text) in &pages {
        let links = text.split("](").skip(1).filter_map(|link| link.split(')').next());
        for (path, anchor) in links.filter_map(|link| link.split_once('#')) {
            if path.contains("://") || !(path.is_empty() || path.ends_with(".md")) {
                continue;
            }
            let file = root().join(page.parent().unwrap()).join(path);
            let target = match path {
                "" => text.clone(),
                _ => fs::read_to_string(file).unwrap(),
            };
            assert!(anchors(&target).contains(anchor), "{}: {path}#{anchor}", page.display());
            found += 1;
        }
    }
    assert!(found > 50, "{found}");
}

/// Comments of the code name files that exist, such as `src/main.rs`.
#[test]
fn comments_name_files_that_exist() {
    let sources =
        [("src", "rs"), ("crates", "rs"), ("lua", "lua"), ("proto", "proto"), ("clients", "rs")];
    let mut found = 0;
    for (path, text) in sources.into_iter().flat_map(|(folder, ending)| files(folder, ending)) {
        let is_comment = |line: &&str| ["//", "--"].iter().any(|start| line.starts_with(start));
        let ends = |letter: char| !(letter.is_alphanumeric() || "/._".contains(letter));
        for word in text.lines().map(str::trim).filter(is_comment).flat_map(|it| it.split(ends)) {
            let named = word.trim_end_matches('.');
            if named.split_once('/').is_some_and(|(top, rest)| is_folder(top) && !rest.is_empty()) {
                assert!(root().join(named).exists(), "{} names {named}", path.display());
                found += 1;
            }
        }
    }
    assert!(found > 50, "{found}");
}

/// The log lines in tables of the documentation are those of the code.
#[test]
fn pages_name_log_lines_that_exist() {
    let sources: Vec<String> = sources().into_iter().map(|(_, text)| text).collect();
    for page in ["operations", "security"] {
        let text = fs::read_to_string(root().join(format!("docs/{page}.md"))).unwrap();
        let table = text.split("\n| line | ").nth(1).unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
        let lines: Vec<&str> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
        assert!(lines.len() >= 3, "{lines:?}");
        for line in lines {
            let exists = sources.iter().any(|source| source.contains(line));
            assert!(exists, "docs/{page}.md: no log line says `{line}`");
        }
    }
}

/// `CONTRIBUTING.md` says which files a new capability changes. It must list each file that names
/// the existing capability `stock`.
#[test]
fn contributing_names_every_file_that_a_capability_needs() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let steps = page.split_once("## Add a verb").unwrap().1.split_once("## Add a limit").unwrap().0;
    let names = |line: &str| {
        let code = line.split("//").next().unwrap();
        ["stock::", "mod stock", "Stock"].iter().any(|name| {
            code.match_indices(name).any(|(at, _)| !code[..at].ends_with(char::is_alphanumeric))
        })
    };
    let sources =
        ["src", "crates", "clients/rust/src"].into_iter().flat_map(|folder| files(folder, "rs"));
    let mut edited = Vec::new();
    for (path, text) in sources {
        let path = path.to_str().unwrap().to_owned();
        // The capability's own files, and a load that uses it.
        if ["/stock", "/reservation.rs", "/fleet/", "build.rs", "fuzz.rs"]
            .iter()
            .any(|own| path.contains(own))
        {
            continue;
        }
        if text.lines().any(names) {
            assert!(steps.contains(&format!("`{path}`")), "no step names {path}");
            edited.push(path);
        }
    }
    assert!(
        edited.len() <= 13,
        "the listed edits of a capability, {}, are not {edited:?}",
        edited.len()
    );
    assert!(edited.contains(&"crates/engine/src/registry.rs".to_owned()), "{edited:?}");
}

/// Whether a folder of this name is at the top of the project.
fn is_folder(name: &str) -> bool {
    ["src", "crates", "clients", "tests", "lua", "proto", "docs", "benches", "deploy", "examples"]
        .contains(&name)
}

/// Whether a file defines this name, or implements something for it.
fn defines(text: &str, name: &str) -> bool {
    ["fn", "struct", "enum", "trait", "impl", "for"].iter().any(|kind| {
        let start = format!("{kind} {name}");
        let mut ends = text.match_indices(&start).map(|(at, _)| &text[at + start.len()..]);
        ends.any(|end| !end.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    })
}

#[test]
fn the_request_paths_agree_with_the_code() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for (name, path) in links(&page).into_iter().filter(|(name, _)| name.starts_with('`')) {
        let text = fs::read_to_string(root().join("docs").join(path)).unwrap();
        for part in name.trim_matches('`').split("::") {
            assert!(defines(&text, part), "{path} has no {part}");
        }
    }
    let list_of = |title: &str| {
        let list = page.split(&format!("\n### {title}\n")).nth(1).expect("the path has its list");
        list.split("\n#").next().unwrap().to_owned()
    };
    let [redis, rate] = ["AdmitTask on Redis", "CheckRate on Redis"].map(list_of);
    // It has the first and the last steps in common with Redis.
    let title = "AdmitTask on the embedded engine";
    let (first, rest) = redis.split_once("\n8. ").unwrap();
    let (_, last) = rest.split_once("\n17. ").unwrap();
    let embedded = format!("{}{first}\n17. {last}", list_of(title));
    for (title, list) in
        [("AdmitTask on Redis", &redis), ("CheckRate on Redis", &rate), (title, &embedded)]
    {
        let (mut stages, mut all) = (BTreeSet::new(), BTreeSet::new());
        for line in list.lines() {
            let is_stage = line.starts_with(|first: char| first.is_ascii_digit());
            let linked = links(line).into_iter().filter(|(_, file)| file.ends_with(".rs"));
            for (number, (_, file)) in linked.enumerate() {
                all.insert(file);
                stages.extend((is_stage && number == 0).then_some(file));
            }
        }
        let said = format!("{} Rust files, {} with their helpers.", stages.len(), all.len());
        assert!(list.contains(&said), "{title}: {said}");
    }
}
