//! Metadata of rules.

use serde_json::{Map, Value};

/// Adds the metadata of a rule to that of earlier ones. Mappings are merged; for other values, the
/// first one is kept.
pub fn merge(all: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        match (all.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(_), _) => {}
            (None, value) => {
                all.insert(key.clone(), value.clone());
            }
        }
    }
}
