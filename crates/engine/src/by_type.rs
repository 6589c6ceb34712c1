//! Values by their type: the parts of the engine that exist once for each kind of decision.

use std::{any::Any, sync::OnceLock};

/// Values by their type, each created at its first use. A lookup compares a few type ids and takes
/// no lock.
#[derive(Debug, Default)]
pub(super) struct ByType(OnceLock<Box<TypeEntry>>);

#[derive(Debug)]
struct TypeEntry {
    value: Box<dyn Any + Send + Sync>,
    next: ByType,
}

impl ByType {
    /// The value of this type.
    pub(super) fn get<T: Default + Send + Sync + 'static>(&self) -> &T {
        self.get_or(T::default)
    }

    /// The value of this type. Its first use calls `create`.
    pub(super) fn get_or<T: Send + Sync + 'static>(&self, create: impl Fn() -> T) -> &T {
        let mut entries = self;
        loop {
            let entry = entries.0.get_or_init(|| {
                Box::new(TypeEntry { value: Box::new(create()), next: ByType::default() })
            });
            match entry.value.downcast_ref() {
                Some(value) => return value,
                None => entries = &entry.next,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use super::*;

    #[test]
    fn each_type_has_one_value() {
        let values = ByType::default();
        values.get::<AtomicU32>().store(1, Ordering::Relaxed);
        values.get::<AtomicU64>().store(2, Ordering::Relaxed);
        assert_eq!(values.get::<AtomicU32>().load(Ordering::Relaxed), 1);
        assert_eq!(values.get::<AtomicU64>().load(Ordering::Relaxed), 2);
    }
}
