//! The version: of the package, and the commit and target of the build.

#[cfg(test)]
mod commit;

/// Package version, commit and target, such as `0.1.0 (0123456789ab, x86_64-unknown-linux-gnu)`.
/// A debug build does not contain its commit, so that a commit does not rebuild it.
pub(super) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("TOLLGATE_BUILD"), ")");
