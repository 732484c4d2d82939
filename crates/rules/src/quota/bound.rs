//! [`BoundPods`]: the pods of a quota, as listed in a refusal.

/// Maximum number of pods that a refusal names.
pub const NAMED: usize = 2;

/// Pods of a quota that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundPods {
    /// Number of pods, named or not.
    pub count: usize,
    /// Names of the first [`NAMED`] pods.
    pub first: Vec<String>,
}

impl BoundPods {
    /// Adds `count` pods; `names` yields the names of some of them.
    pub fn add<'n>(&mut self, count: usize, names: impl Iterator<Item = &'n str>) {
        let free = NAMED.saturating_sub(self.first.len());
        self.first.extend(names.take(free).map(str::to_owned));
        self.count = self.count.saturating_add(count);
    }

    /// Names joined by commas, with `...` if there are more.
    pub fn names(&self) -> String {
        let dots = (self.count > NAMED).then(|| "...".to_owned());
        let names: Vec<String> = self.first.iter().cloned().chain(dots).collect();
        names.join(", ")
    }
}
