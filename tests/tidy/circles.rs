//! The dependencies between the files of a crate have no cycle.
//!
//! A file depends on the files of the modules that its imports and paths name. A re-exported name
//! counts for the file that defines it. A module with parts (`x.rs` and the files below `x/`) counts
//! as the whole of its parts: a part may use names of the module that contains it.

use std::collections::{BTreeMap, BTreeSet};

use super::{CRATES, code, files, is_test};

type Module = Vec<String>;

/// What a file imports and names.
#[derive(Default)]
struct Uses {
    /// Absolute paths.
    paths: Vec<Module>,
    /// Imported names that other files can use, each with its path.
    names: BTreeMap<String, Module>,
}

fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    parts.pop_if(|last| ["mod", "lib"].contains(&last.as_str()));
    parts
}

/// The paths of an import: `a::{b, c::d}` gives `a::b` and `a::c::d`.
fn leaves(tree: &str, before: &[String], found: &mut Vec<Module>) {
    let (head, group) =
        tree.split_once('{').map_or((tree, None), |(head, rest)| (head, Some(rest)));
    let mut path = before.to_vec();
    path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(group) = group else {
        if !path.is_empty() {
            found.push(path);
        }
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                leaves(group[start..at].trim(), &path, found);
                start = at + 1;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
}

/// Returns the path from the root of the crate; `None` for a path of another crate.
fn absolute(module: &[String], path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    let mut at = module.to_vec();
    let mut rest = path;
    while let [first, others @ ..] = rest {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = others;
    }
    at.extend(rest.iter().cloned());
    let is_child = || modules.contains(&at[..at.len().min(module.len() + 1)]);
    (rest.len() < path.len() || is_child()).then_some(at)
}

/// Returns all paths with `::` in code without imports.
fn named(code: &str) -> impl Iterator<Item = Module> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let paths = code.split(move |letter| !is_part(letter)).filter(|path| path.contains("::"));
    paths.map(|path| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

fn uses(module: &Module, code: &str, modules: &BTreeSet<Module>) -> Uses {
    let (mut uses, mut rest) = (Uses::default(), String::new());
    for item in code.split_inclusive(';') {
        let line = item.find("\nuse ").or_else(|| item.find("\npub use "));
        let line = line
            .or_else(|| item.find("\npub(crate) use "))
            .or_else(|| item.find("\npub(super) use "));
        let Some(start) = line else {
            rest += item;
            continue;
        };
        rest += &item[..start];
        let import = item[start..].trim().trim_end_matches(';');
        let (visibility, tree) = import.split_once("use ").unwrap();
        let mut found = Vec::new();
        leaves(tree, &[], &mut found);
        for mut path in found {
            let last = path.pop().unwrap();
            let (last, name) = last.split_once(" as ").unwrap_or((&last, &last));
            path.extend(Some(last.to_owned()).filter(|last| last != "self"));
            let Some(path) = absolute(module, &path, modules) else { continue };
            uses.names.insert(name.to_owned(), path.clone());
            if visibility.is_empty() {
                uses.paths.push(path);
            }
        }
    }
    uses.paths.extend(named(&rest).filter_map(|path| absolute(module, &path, modules)));
    uses
}

/// Returns the module that defines what a path names.
fn owner(path: &[String], all: &BTreeMap<Module, Uses>, depth: usize) -> Module {
    let known = (0..=path.len()).take_while(|length| all.contains_key(&path[..*length]));
    let length = known.last().unwrap_or(0);
    let (module, rest) = path.split_at(length);
    let imported = rest.first().and_then(|name| all.get(module)?.names.get(name));
    match imported {
        Some(other) if depth < 9 && !path.starts_with(other) => {
            owner(&[other, &rest[1..]].concat(), all, depth + 1)
        }
        _ => module.to_vec(),
    }
}

/// Searches for a cycle from a module. Returns whether there is one; `way` then has its modules.
fn circle<'a>(
    module: &'a Module,
    edges: &'a BTreeMap<Module, BTreeSet<Module>>,
    way: &mut Vec<&'a Module>,
    done: &mut BTreeSet<&'a Module>,
) -> bool {
    if let Some(start) = way.iter().position(|before| *before == module) {
        way.drain(..start);
        return true;
    }
    if !done.insert(module) {
        return false;
    }
    way.push(module);
    let found = edges[module].iter().any(|next| circle(next, edges, way, done));
    if !found {
        way.pop();
    }
    found
}

#[test]
fn files_form_no_circle() {
    let folders = CRATES.map(|(name, _)| format!("crates/{name}/src/"));
    let edges = folders.iter().map(|folder| edges_of_acyclic(folder)).sum::<usize>();
    assert!(edges + edges_of_acyclic("src/") > 1000, "imports are found");
}

/// Returns the number of dependencies between the files of a crate. Panics if they form a circle.
fn edges_of_acyclic(folder: &str) -> usize {
    let files: Vec<_> =
        files(folder, "rs").into_iter().filter(|(path, _)| !is_test(path)).collect();
    let code: BTreeMap<Module, String> = files
        .iter()
        .filter(|(path, _)| !path.ends_with("main.rs"))
        .map(|(path, text)| {
            (
                module(path.to_str().unwrap().strip_prefix(folder).unwrap()),
                format!("\n{}", self::code(text)),
            )
        })
        .collect();
    let modules: BTreeSet<Module> = code.keys().cloned().collect();
    let all: BTreeMap<Module, Uses> =
        code.iter().map(|(module, code)| (module.clone(), uses(module, code, &modules))).collect();
    let edges: BTreeMap<Module, BTreeSet<Module>> = all
        .iter()
        .map(|(module, uses)| {
            let owners = uses.paths.iter().map(|path| owner(path, &all, 0));
            (module.clone(), owners.filter(|owner| !module.starts_with(owner)).collect())
        })
        .collect();
    let mut done = BTreeSet::new();
    for module in edges.keys() {
        let mut way = Vec::new();
        let way_back = circle(module, &edges, &mut way, &mut done);
        assert!(!way_back, "files of {folder} form a circle: {way:?}");
    }
    edges.values().map(BTreeSet::len).sum()
}
