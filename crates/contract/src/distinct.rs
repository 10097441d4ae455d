//! Equal values kept once, because thousands of nodes have the same.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Number of values below which unused ones are kept.
const MIN_KEPT: usize = 1024;

/// Distinct values. Drops unused values from time to time: it holds at most 1,024, or twice the number that was in use when
/// it last dropped some.
#[derive(Debug)]
pub struct Distinct<T> {
    values: HashSet<Arc<T>>,
    /// Number of values at which unused ones are dropped.
    limit: usize,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), limit: MIN_KEPT }
    }
}

impl<T: Eq + Hash> Distinct<T>
where
    Arc<T>: Borrow<T>,
{
    /// Returns the kept value that equals this one, or keeps this one.
    pub fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(&*value) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.limit {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.limit = MIN_KEPT.max(2 * self.values.len());
        }
        self.values.insert(Arc::clone(&value));
        value
    }

    /// All kept values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once() {
        let mut distinct = Distinct::default();
        let first = distinct.share(Arc::new("a".to_owned()));
        assert!(Arc::ptr_eq(&first, &distinct.share(Arc::new("a".to_owned()))));
        assert!(!Arc::ptr_eq(&first, &distinct.share(Arc::new("b".to_owned()))));
        assert_eq!(distinct.iter().count(), 2);
    }

    /// A compromised node that reports ever new values must not fill the memory.
    #[test]
    fn unused_values_are_dropped() {
        let mut distinct = Distinct::default();
        let mut used: Vec<Arc<usize>> = Vec::new();
        for number in 0..10 * MIN_KEPT {
            let value = distinct.share(Arc::new(number));
            if number % 10 == 0 {
                used.push(value);
            }
            assert!(distinct.iter().count() <= MIN_KEPT.max(2 * used.len()) + 1, "{number}");
        }
        for value in &used {
            assert!(Arc::ptr_eq(value, &distinct.share(Arc::new(**value))));
        }
        used.clear();
        for number in 0..4 * MIN_KEPT {
            distinct.share(Arc::new(100_000 + number));
        }
        assert!(distinct.iter().count() <= MIN_KEPT, "{}", distinct.iter().count());
    }
}
