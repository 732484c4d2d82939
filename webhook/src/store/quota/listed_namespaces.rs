//! [`ListedNamespaces`]: limits on the namespaces that stored quotas list, for each namespace of quotas and in all.
//!
//! Every author of quotas chooses the lists, and the webhook may not have judged them. Names beyond a limit count as not
//! listed.

use std::collections::HashMap;

use headroom_rules::quota::Quota;

/// Maximum number of names in the lists of the quotas of one namespace.
const MOST_OF_NAMESPACE: usize = 8_192;
/// Maximum number of names in all lists.
const MOST: usize = 65_536;

/// Number of listed names.
#[derive(Debug, Default)]
pub(super) struct ListedNamespaces {
    /// By the namespace of the quotas.
    by_namespace: HashMap<Box<str>, usize>,
    all: usize,
}

impl ListedNamespaces {
    /// Counts the list of a quota, shortens it to the limits, and returns the number of dropped names.
    pub(super) fn add(&mut self, quota: &mut Quota) -> usize {
        if quota.namespaces.is_empty() {
            return 0;
        }
        let count = self.by_namespace.entry(quota.namespace.clone()).or_default();
        let free = MOST_OF_NAMESPACE
            .saturating_sub(*count)
            .min(MOST.saturating_sub(self.all));
        let dropped = quota.namespaces.len().saturating_sub(free);
        quota.namespaces.truncate(free);
        quota.namespaces.shrink_to_fit();
        *count += quota.namespaces.len();
        self.all += quota.namespaces.len();
        dropped
    }

    /// Counts the list of a quota no more.
    pub(super) fn remove(&mut self, quota: &Quota) {
        let length = quota.namespaces.len();
        self.all = self.all.saturating_sub(length);
        if let Some(count) = self.by_namespace.get_mut(&quota.namespace) {
            *count = count.saturating_sub(length);
            if *count == 0 {
                self.by_namespace.remove(&quota.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(namespace: &str, names: usize) -> Quota {
        Quota {
            namespace: namespace.into(),
            namespaces: (0..names).map(|name| name.to_string().into()).collect(),
            ..Quota::default()
        }
    }

    #[test]
    fn lists_are_limited_by_namespace_and_in_all() {
        let mut listed = ListedNamespaces::default();
        let mut first = quota("a", 8_000);
        assert_eq!(listed.add(&mut first), 0);
        assert_eq!(
            listed.add(&mut quota("a", 8_000)),
            7_808,
            "the namespace has 192 left"
        );
        listed.remove(&first);
        assert_eq!(listed.add(&mut quota("a", 8_000)), 0);
        for namespace in 0..7 {
            assert_eq!(listed.add(&mut quota(&namespace.to_string(), 8_192)), 0);
        }
        assert_eq!(listed.add(&mut quota("z", 5)), 5, "no name is left in all");
    }
}
