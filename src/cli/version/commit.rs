//! Determines the commit of a checkout without running git. `build.rs` includes this file.
//!
//! Only the `.git` of the source folder itself counts: a source archive that is unpacked inside
//! another checkout has no commit.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Number of hexadecimal digits in the version.
const DIGITS: usize = 12;

/// The commit of a checkout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// The first digits of its hash.
    pub(crate) short: String,
    /// The existing files and folders that change when the commit does.
    pub(crate) watched: Vec<PathBuf>,
}

/// Reads the commit of the checkout in `root`. Returns `None` outside a checkout.
pub(crate) fn read(root: &Path) -> Option<Commit> {
    let git = folder(root)?;
    let head = git.join("HEAD");
    let text = fs::read_to_string(&head).ok()?;
    let Some(name) = text.trim().strip_prefix("ref: ") else {
        return Some(Commit { short: short(text.trim())?, watched: vec![head] });
    };
    // A worktree has its own HEAD but shares the branches.
    let common = fs::read_to_string(git.join("commondir")).map(|path| git.join(path.trim()));
    let common = common.unwrap_or(git);
    let (branch, packed) = (common.join(name), common.join("packed-refs"));
    let hash = fs::read_to_string(&branch).ok().or_else(|| {
        let packed = fs::read_to_string(&packed).ok()?;
        let line = packed.lines().find(|line| line.split(' ').nth(1) == Some(name))?;
        Some(line.to_owned())
    });
    let short = short(hash?.split_whitespace().next()?)?;
    // A branch in packed-refs gets its own file with the next commit.
    let branch = branch.ancestors().find(|path| path.exists()).map(Path::to_owned);
    let watched = [Some(head), branch, Some(packed).filter(|path| path.exists())];
    Some(Commit { short, watched: watched.into_iter().flatten().collect() })
}

/// Checks the hash of a commit and shortens it.
pub(crate) fn short(hash: &str) -> Option<String> {
    let is_hash = (7..=64).contains(&hash.len()) && hash.bytes().all(|it| it.is_ascii_hexdigit());
    is_hash.then(|| hash[..hash.len().min(DIGITS)].to_ascii_lowercase())
}

/// Returns the git folder: `.git`, or the folder that a file of this name refers to.
fn folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(git).ok()?;
    Some(root.join(text.trim().strip_prefix("gitdir: ")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

    /// A folder with these files, removed at the end.
    struct Checkout(PathBuf);

    impl Checkout {
        fn new(name: &str, files: &[(&str, &str)]) -> Checkout {
            let root = std::env::temp_dir().join(format!("tollgate-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("inside")).expect("made");
                fs::write(path, text).expect("written");
            }
            Checkout(root)
        }

        /// Returns the digits and the watched files, relative to the folder.
        fn read(&self) -> Option<(String, Vec<String>)> {
            let Commit { short, watched } = read(&self.0)?;
            let relative = |path: PathBuf| {
                path.strip_prefix(&self.0).expect("inside").to_string_lossy().into_owned()
            };
            Some((short, watched.into_iter().map(relative).collect()))
        }
    }

    impl Drop for Checkout {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn found(watched: &[&str]) -> Option<(String, Vec<String>)> {
        Some((HASH[..12].to_owned(), watched.iter().map(|path| (*path).to_owned()).collect()))
    }

    #[test]
    fn a_branch_is_a_file_or_a_line_of_packed_refs() {
        let line = format!("{HASH}\n");
        let branch = ("HEAD", "ref: refs/heads/main\n");
        let head = (".git/HEAD", branch.1);
        let loose = Checkout::new("loose", &[head, (".git/refs/heads/main", &line)]);
        assert_eq!(loose.read(), found(&[".git/HEAD", ".git/refs/heads/main"]));
        let packed =
            format!("# pack-refs\n{} refs/heads/a\n{HASH} refs/heads/main\n", "f".repeat(40));
        let packed = [head, (".git/packed-refs", &*packed), (".git/refs/heads/a", "x")];
        let packed = Checkout::new("packed", &packed);
        assert_eq!(packed.read(), found(&[".git/HEAD", ".git/refs/heads", ".git/packed-refs"]));
        let detached = Checkout::new("detached", &[(".git/HEAD", &line)]);
        assert_eq!(detached.read(), found(&[".git/HEAD"]));
    }

    #[test]
    fn a_worktree_shares_the_branches_of_its_checkout() {
        let files = [
            ("tree/.git", "gitdir: ../main/.git/worktrees/tree\n"),
            ("main/.git/worktrees/tree/HEAD", "ref: refs/heads/side\n"),
            ("main/.git/worktrees/tree/commondir", "../..\n"),
            ("main/.git/refs/heads/side", HASH),
        ];
        let both = Checkout::new("worktree", &files);
        let commit = read(&both.0.join("tree")).expect("a commit");
        assert_eq!((&*commit.short, commit.watched.len()), (&HASH[..12], 2));
    }

    #[test]
    fn a_source_archive_and_broken_files_have_no_commit() {
        for (name, files) in [
            ("archive", &[("Cargo.toml", "")][..]),
            ("unborn", &[(".git/HEAD", "ref: refs/heads/main\n")]),
            ("broken", &[(".git/HEAD", "what\n")]),
            ("lost", &[(".git", "gitdir: nowhere\n")]),
        ] {
            let folder = Checkout::new(name, files);
            assert_eq!(folder.read(), None, "{name}");
        }
        assert_eq!(short("0123456"), Some("0123456".to_owned()));
        assert_eq!(short("012345"), None);
        assert_eq!(short("main-branch"), None);
    }
}
