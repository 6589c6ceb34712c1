//! `tollgate --version`.

use crate::support::process::done;

#[tokio::test(flavor = "multi_thread")]
async fn the_version_has_the_target_of_the_build() {
    let version = done(&["--version"]).await;
    let rest = version.strip_prefix(concat!("tollgate ", env!("CARGO_PKG_VERSION"), " ("));
    let (commit, target) = rest
        .and_then(|it| it.trim_end().strip_suffix(')'))
        .unwrap()
        .split_once(", ")
        .expect(&version);
    let is_hash = commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || ["debug build", "unknown commit"].contains(&commit), "{version}");
    assert!(target.contains(std::env::consts::ARCH) && target.contains('-'), "{version}");
}
