//! [`BoundPods`]: the pods that belong to a quota, as a refusal names them.

/// How many pods a refusal names.
pub const NAMED: usize = 2;

/// Pods that belong to a quota and have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundPods {
    /// How many there are.
    pub count: usize,
    /// The names of the first ones.
    pub first: Vec<String>,
}

impl BoundPods {
    /// Adds pods, of which `names` gives some.
    pub fn add<'n>(&mut self, count: usize, names: impl Iterator<Item = &'n str>) {
        let room = NAMED.saturating_sub(self.first.len());
        self.first.extend(names.take(room).map(str::to_owned));
        self.count = self.count.saturating_add(count);
    }

    /// `a`, `a, b`, or the first two and `...`.
    pub fn names(&self) -> String {
        let dots = (self.count > NAMED).then(|| "...".to_owned());
        let names: Vec<String> = self.first.iter().cloned().chain(dots).collect();
        names.join(", ")
    }
}
