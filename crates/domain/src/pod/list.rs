//! Lists of amounts by resource, and the arithmetic that sums over containers need.

use serde::Deserialize;

use crate::{
    amounts::Amounts,
    capacity::amount,
    names,
    quantity::Quantity,
    resource::{PerResource, Resource},
};

/// Amounts by resource. One that is not named is not the same as zero.
pub trait ResourceList: Clone + Default {
    /// What names a resource.
    type Name: ?Sized + 'static;
    /// An amount of a resource.
    type Amount: Copy + Ord;
    /// No amount.
    const ZERO: Self::Amount;

    /// The sum; saturates.
    fn sum(one: Self::Amount, other: Self::Amount) -> Self::Amount;

    /// True for a resource that a pod can ask for as a whole: CPU, memory and huge pages.
    fn is_of_pods(name: &Self::Name) -> bool;

    /// The amount of a resource, if it is named.
    fn get(&self, name: &Self::Name) -> Option<Self::Amount>;

    /// Sets the amount of a resource.
    fn set(&mut self, name: &Self::Name, amount: Self::Amount);

    /// The resources that are named, with their amounts.
    fn iter(&self) -> impl Iterator<Item = (&Self::Name, Self::Amount)>;

    /// True if CPU or memory is named. Where a kubelet reports such a list, what the list lacks is nothing.
    fn has_cpu_or_memory(&self) -> bool;

    /// Adds all amounts of `other`.
    fn add(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let sum = self.get(name).map_or(amount, |before| Self::sum(before, amount));
            self.set(name, sum);
        }
    }

    /// Raises a resource to an amount, unless it has as much.
    fn raise(&mut self, name: &Self::Name, amount: Self::Amount) {
        if self.get(name).is_none_or(|before| before < amount) {
            self.set(name, amount);
        }
    }

    /// Raises all resources to the amounts of `other`.
    fn raise_all(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            self.raise(name, amount);
        }
    }

    /// Sets the resources that are not named to the amounts of `other`.
    fn fill(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            if self.get(name).is_none() {
                self.set(name, amount);
            }
        }
    }
}

impl ResourceList for Amounts {
    type Name = str;
    type Amount = Quantity;
    const ZERO: Quantity = Quantity::ZERO;

    fn sum(one: Quantity, other: Quantity) -> Quantity {
        one.saturating_add(&other)
    }

    fn is_of_pods(name: &str) -> bool {
        [names::CPU, names::MEMORY].contains(&name) || name.starts_with("hugepages-")
    }

    fn get(&self, name: &str) -> Option<Quantity> {
        Self::get(self, name).copied()
    }

    fn set(&mut self, name: &str, amount: Quantity) {
        Self::set(self, name, amount);
    }

    fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        Self::iter(self).map(|(name, amount)| (name, *amount))
    }

    fn has_cpu_or_memory(&self) -> bool {
        self.contains(names::CPU) || self.contains(names::MEMORY)
    }
}

/// Amounts of CPU, in milli-cores, and memory, in bytes. Other resources are not read.
///
/// Fractions of a unit count as a whole one. What is negative, too large or no quantity counts as absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenAmounts")]
pub struct CpuAndMemory(pub PerResource<Option<u64>>);

#[derive(Deserialize)]
struct WrittenAmounts {
    cpu: Option<String>,
    memory: Option<String>,
}

impl From<WrittenAmounts> for CpuAndMemory {
    fn from(written: WrittenAmounts) -> Self {
        let WrittenAmounts { cpu, memory } = written;
        let read = |resource, text: Option<String>| amount(resource, &text?.parse::<Quantity>().ok()?);
        Self(PerResource {
            cpu: read(Resource::Cpu, cpu),
            memory: read(Resource::Memory, memory),
        })
    }
}

impl CpuAndMemory {
    /// Combines the amounts that both name, and copies those that only `other` names.
    fn combine(&mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) {
        self.0 = self.0.map(|resource, own| match (*own, *other.0.get(resource)) {
            (Some(own), Some(other)) => Some(combine(own, other)),
            (own, other) => own.or(other),
        });
    }

    /// The amounts, 0 where one is absent.
    pub fn amounts(&self) -> PerResource<u64> {
        self.0.map(|_, amount| amount.unwrap_or_default())
    }
}

impl ResourceList for CpuAndMemory {
    type Name = Resource;
    type Amount = u64;
    const ZERO: u64 = 0;

    fn sum(one: u64, other: u64) -> u64 {
        one.saturating_add(other)
    }

    fn is_of_pods(name: &Resource) -> bool {
        match name {
            Resource::Cpu | Resource::Memory => true,
        }
    }

    fn get(&self, name: &Resource) -> Option<u64> {
        *self.0.get(*name)
    }

    fn set(&mut self, name: &Resource, amount: u64) {
        *self.0.get_mut(*name) = Some(amount);
    }

    fn iter(&self) -> impl Iterator<Item = (&Resource, u64)> {
        let named = Resource::ALL.iter();
        named.filter_map(|resource| Some((resource, self.get(resource)?)))
    }

    fn has_cpu_or_memory(&self) -> bool {
        let PerResource { cpu, memory } = &self.0;
        cpu.is_some() || memory.is_some()
    }

    fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
    }

    fn raise_all(&mut self, other: &Self) {
        self.combine(other, u64::max);
    }

    fn fill(&mut self, other: &Self) {
        self.combine(other, |own, _| own);
    }
}
