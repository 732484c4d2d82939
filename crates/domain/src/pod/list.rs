//! [`ResourceList`]: amounts by resource, and the arithmetic for sums over containers.

use serde::Deserialize;

use crate::{
    amounts::Amounts,
    capacity::amount,
    names,
    quantity::{Quantity, QuantityError},
    resource::{PerResource, Resource},
};

/// Amounts by resource. A resource that is not named differs from one with zero.
pub trait ResourceList: Clone + Default {
    /// Type of a resource name.
    type Name: ?Sized + 'static;
    /// Type of an amount, with a total order.
    type Amount: Copy + Ord;
    /// The amount zero, for absent resources.
    const ZERO: Self::Amount;

    /// Sum of two amounts; saturates.
    fn sum(one: Self::Amount, other: Self::Amount) -> Self::Amount;

    /// Returns true for a resource that a pod can request as a whole: CPU, memory and huge pages.
    fn is_of_pods(name: &Self::Name) -> bool;

    /// Amount of a resource; `None` if it is not named.
    fn get(&self, name: &Self::Name) -> Option<Self::Amount>;

    /// Sets the amount of a resource and replaces an earlier one.
    fn set(&mut self, name: &Self::Name, amount: Self::Amount);

    /// Iterates over the named resources and their amounts.
    fn iter(&self) -> impl Iterator<Item = (&Self::Name, Self::Amount)>;

    /// Returns true if CPU or memory is named. Such a list from a kubelet is complete: a resource that it lacks is
    /// zero.
    fn has_cpu_or_memory(&self) -> bool;

    /// Adds all amounts of `other`; sums saturate.
    fn add(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let sum = self.get(name).map_or(amount, |before| Self::sum(before, amount));
            self.set(name, sum);
        }
    }

    /// Sets a resource to `amount` if its own amount is smaller or absent.
    fn raise(&mut self, name: &Self::Name, amount: Self::Amount) {
        if self.get(name).is_none_or(|before| before < amount) {
            self.set(name, amount);
        }
    }

    /// Raises every resource to its amount in `other` if that is larger.
    fn raise_all(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            self.raise(name, amount);
        }
    }

    /// Copies the amounts of resources that only `other` names.
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

/// Amounts of CPU in milli-cores and of memory in bytes. Other resources are ignored.
///
/// Fractions of a unit are rounded up. Negative quantities count as absent, and those above 2⁶³-1 as [`BEYOND`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenAmounts")]
pub struct CpuAndMemory(pub PerResource<Option<u64>>);

#[derive(Deserialize)]
struct WrittenAmounts {
    cpu: Option<String>,
    memory: Option<String>,
}

/// Amount of a quantity above 2⁶³-1. A kubelet's own arithmetic overflows there, so the amount that it counts for the
/// pod is unknown.
pub const BEYOND: u64 = u64::MAX;

impl TryFrom<WrittenAmounts> for CpuAndMemory {
    type Error = QuantityError;

    fn try_from(written: WrittenAmounts) -> Result<Self, QuantityError> {
        let WrittenAmounts { cpu, memory } = written;
        let read = |resource, text: Option<String>| -> Result<Option<u64>, QuantityError> {
            let quantity = text.map(|text| text.parse::<Quantity>()).transpose()?;
            let quantity = quantity.filter(|quantity| !quantity.is_negative());
            Ok(quantity.map(|quantity| amount(resource, &quantity).unwrap_or(BEYOND)))
        };
        Ok(Self(PerResource {
            cpu: read(Resource::Cpu, cpu)?,
            memory: read(Resource::Memory, memory)?,
        }))
    }
}

impl CpuAndMemory {
    /// Combines amounts named on both sides, and copies those that only `other` names.
    fn combine(&mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) {
        self.0 = self.0.map(|resource, own| match (*own, *other.0.get(resource)) {
            (Some(own), Some(other)) => Some(combine(own, other)),
            (own, other) => own.or(other),
        });
    }

    /// Amounts in milli-cores and bytes, 0 if absent.
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("1e4294967296", Some(1000))]
    #[case("30e4294967296", Some(30_000))]
    #[case("m", Some(0))]
    #[case("-1", None)]
    #[case("9223372036854775807m", Some(i64::MAX as u64))]
    #[case("9223372036854775808m", Some(BEYOND))]
    #[case("1e64", Some(BEYOND))]
    fn cpus_are_read_as_kubernetes_reads_them(#[case] text: &str, #[case] milli: Option<u64>) {
        let amounts: CpuAndMemory = serde_json::from_value(json!({"cpu": text})).unwrap();
        assert_eq!(amounts.0.cpu, milli, "{text}");
        assert_eq!(amounts.0.memory, None);
    }

    #[test]
    fn invalid_quantity_is_an_error_with_its_text() {
        let error = serde_json::from_value::<CpuAndMemory>(json!({"cpu": "many"})).unwrap_err();
        assert_eq!(error.to_string(), "\"many\" is not a quantity");
    }
}
