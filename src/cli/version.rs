//! The version of the package, with the commit and the target of the build.

#[cfg(test)]
mod commit;

/// Package version, commit and target, such as `0.1.0 (0123456789ab, x86_64-unknown-linux-gnu)`. A
/// debug build does not contain its commit, so that committing does not trigger a rebuild.
pub(super) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("TOLLGATE_BUILD"), ")");
