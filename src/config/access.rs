//! Checks of the callers against other settings.

use std::path::Path;

use super::{
    ConfigError,
    caller::{self, ReflectionName},
    file::File,
};

/// Fails if the callers of a file and other settings contradict each other.
pub(super) fn check(
    path: &Path,
    file: &File,
    has_callers: bool,
    has_client_ca: bool,
) -> Result<(), ConfigError> {
    let failed = |what: &str| Err(ConfigError(format!("{}: {what}", path.display())));
    if let Some(index) = caller::with_certificate(&file.caller).filter(|_| !has_client_ca) {
        return failed(&format!(
            "caller[{index}].mtls: requires tls.client_ca and tls.client_auth"
        ));
    }
    if !has_callers && file.reflection == Some(ReflectionName::Callers) {
        return failed("reflection = \"callers\": requires a [[caller]] or [jwt]");
    }
    Ok(())
}
