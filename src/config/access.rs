//! Checks the callers against other settings.

use super::{
    caller::{self, ReflectionName},
    file::File,
};

/// Fails if the callers of a file and other settings contradict each other. The error names the key.
pub(super) fn check(file: &File, has_callers: bool, has_client_ca: bool) -> Result<(), String> {
    if let Some(index) = caller::with_certificate(&file.caller).filter(|_| !has_client_ca) {
        return Err(format!("caller[{index}].mtls: requires tls.client_ca and tls.client_auth"));
    }
    if !has_callers && file.reflection == Some(ReflectionName::Callers) {
        return Err("reflection = \"callers\": requires a [[caller]] or [jwt]".to_owned());
    }
    Ok(())
}
