//! Difference between two arrays: changes inside elements that both have, and elements that were added, removed or
//! moved.
//!
//! Elements at the start and at the end that are the same in both are left alone. The others are the same element if
//! they have the same `name`, where all have one of their own, as containers do; else if they have the same position.
//! Operations inside of elements come first, so that they find them where they were.

use std::collections::HashMap;

use json_patch::jsonptr::PointerBuf;
use serde_json::Value;

use super::Operations;
use crate::admission::draft::WriteKind;

/// Member that identifies elements.
const NAME: &str = "name";

/// Maximum number of elements that are moved one by one; an array with more moves is replaced whole. Arrays that
/// users sort have a few elements.
const MOST_MOVES: usize = 256;

/// Relation of named elements to those before, both without the common starts and ends.
struct Alignment {
    length: usize,
    /// Earlier index of each element, if it existed.
    came_from: Vec<Option<usize>>,
    /// Earlier and new indices of the elements that keep their order; both are ascending.
    fixed: Vec<(usize, usize)>,
}

/// True if every element is an object with a `name` of its own.
pub(super) fn are_named(elements: &[Value]) -> bool {
    places(elements).is_some()
}

impl Operations {
    /// Appends the difference of two arrays.
    pub(super) fn append_elements(&mut self, before: &[Value], mut after: Vec<Value>, kind: WriteKind) {
        if kind == WriteKind::Set && !(are_named(before) && are_named(&after)) {
            if *before != after {
                self.replace(Value::Array(after));
            }
            return;
        }
        let start = common(before.iter().zip(&after));
        let end = common(
            before
                .iter()
                .skip(start)
                .rev()
                .zip(after.iter().skip(start).rev()),
        );
        let was = before.get(start..before.len() - end).unwrap_or_default();
        let is = after.get(start..after.len() - end).unwrap_or_default();
        match Alignment::by_name(was, is) {
            Some(alignment) if alignment.moves() > MOST_MOVES => self.replace(Value::Array(after)),
            alignment => {
                after.truncate(after.len() - end);
                let is = after.into_iter().skip(start).collect();
                match alignment {
                    Some(alignment) => self.append_aligned(start, was, is, &alignment, kind),
                    None => self.append_positions(start, was, is, kind),
                }
            }
        }
    }

    /// Appends the difference of elements from `start` on, position by position.
    fn append_positions(&mut self, start: usize, before: &[Value], after: Vec<Value>, kind: WriteKind) {
        let length = after.len();
        for (at, value) in after.into_iter().enumerate() {
            self.path.push((start + at).to_string());
            match before.get(at) {
                Some(before) => self.append_difference(before, value, kind),
                None => self.add(value),
            }
            self.path.pop();
        }
        for at in (length..before.len()).rev() {
            self.remove_at(start + at);
        }
    }

    /// Appends the difference of elements from `start` on, name by name.
    fn append_aligned(
        &mut self,
        start: usize,
        before: &[Value],
        mut after: Vec<Value>,
        alignment: &Alignment,
        kind: WriteKind,
    ) {
        for (value, from) in after.iter_mut().zip(&alignment.came_from) {
            let Some((from, before)) = from.and_then(|from| Some((from, before.get(from)?))) else {
                continue;
            };
            self.path.push((start + from).to_string());
            self.append_difference(before, value.take(), kind);
            self.path.pop();
        }
        for at in alignment.gone().into_iter().rev() {
            self.remove_at(start + at);
        }
        let mut pending = alignment.pending();
        for ((at, value), from) in after.into_iter().enumerate().zip(&alignment.came_from) {
            let from = match *from {
                Some(from) if alignment.is_fixed(from) => continue,
                Some(from) => {
                    pending.retain(|other| *other != from);
                    Some(alignment.place_of(from, at, &pending))
                }
                None => None,
            };
            let to = alignment.place_for(at, &pending);
            let from = from.map(|from| self.pointer_at(start + from));
            self.path.push((start + to).to_string());
            match from {
                Some(from) => self.move_from(from),
                None => self.add(value),
            }
            self.path.pop();
        }
    }

    fn remove_at(&mut self, at: usize) {
        self.path.push(at.to_string());
        self.remove();
        self.path.pop();
    }

    fn pointer_at(&mut self, at: usize) -> PointerBuf {
        self.path.push(at.to_string());
        let pointer = self.pointer();
        self.path.pop();
        pointer
    }
}

impl Alignment {
    /// `None` if an element on either side has no name of its own.
    fn by_name(before: &[Value], after: &[Value]) -> Option<Self> {
        let (was, is) = (places(before)?, places(after)?);
        let mut came_from = vec![None; after.len()];
        for (name, at) in is {
            if let Some(from) = came_from.get_mut(at) {
                *from = was.get(name).copied();
            }
        }
        let kept = came_from.iter().enumerate();
        let kept: Vec<_> = kept.filter_map(|(at, from)| Some(((*from)?, at))).collect();
        Some(Self {
            length: before.len(),
            fixed: longest_rising(&kept),
            came_from,
        })
    }

    /// Number of elements that both have, in another order.
    fn moves(&self) -> usize {
        self.came_from.iter().flatten().count() - self.fixed.len()
    }

    /// Earlier indices of removed elements.
    fn gone(&self) -> Vec<usize> {
        let mut is_gone = vec![true; self.length];
        for from in self.came_from.iter().flatten() {
            if let Some(is_gone) = is_gone.get_mut(*from) {
                *is_gone = false;
            }
        }
        let places = is_gone.into_iter().enumerate();
        places.filter_map(|(at, is_gone)| is_gone.then_some(at)).collect()
    }

    /// Earlier indices of the elements that have to move.
    fn pending(&self) -> Vec<usize> {
        let kept = self.came_from.iter().flatten().copied();
        kept.filter(|from| !self.is_fixed(*from)).collect()
    }

    /// True if the element that was there keeps its order.
    fn is_fixed(&self, from: usize) -> bool {
        self.fixed.binary_search_by_key(&from, |(from, _)| *from).is_ok()
    }

    /// Current index of an element that was at `from` and still has to move, after all up to the one for `at` are in
    /// order. Ordered elements are consecutive behind their predecessor, so others that still have to move may be
    /// between.
    fn place_of(&self, from: usize, at: usize, pending: &[usize]) -> usize {
        let before = self.fixed.partition_point(|(other, _)| *other < from);
        let in_order = match self.fixed.get(before) {
            Some((_, to)) if *to < at => *to,
            Some(_) | None => at + before - self.fixed_until(at),
        };
        in_order + pending.iter().filter(|other| **other < from).count()
    }

    /// Current target index for the element whose final index is `at`, after all before it are in order.
    fn place_for(&self, at: usize, pending: &[usize]) -> usize {
        let last = self.fixed_until(at).checked_sub(1);
        let last = last.and_then(|last| self.fixed.get(last));
        at + last.map_or(0, |(from, _)| {
            pending.iter().filter(|other| *other < from).count()
        })
    }

    /// Number of elements before the one for `at` that keep their order.
    fn fixed_until(&self, at: usize) -> usize {
        self.fixed.partition_point(|(_, to)| *to < at)
    }
}

/// Number of pairs up to the first that differs.
fn common<'v>(pairs: impl Iterator<Item = (&'v Value, &'v Value)>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

/// Index of each name; `None` if an element has no name of its own.
fn places(elements: &[Value]) -> Option<HashMap<&str, usize>> {
    // Not with room for all: most arrays end at the first element.
    let mut places = HashMap::new();
    for (at, element) in elements.iter().enumerate() {
        let name = element.as_object()?.get(NAME)?.as_str()?;
        if places.insert(name, at).is_some() {
            return None;
        }
    }
    Some(places)
}

/// Longest subsequence of the pairs, which ascend in the second number, that also ascends in the first.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the pair with the lowest end of a run of that length; and for each pair the one before it.
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut previous = Vec::with_capacity(pairs.len());
    for (at, (from, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|(lowest, _)| lowest < from);
        let end = length.checked_sub(1).and_then(|shorter| ends.get(shorter));
        previous.push(end.map(|(_, at)| *at));
        match ends.get_mut(length) {
            Some(end) => *end = (*from, at),
            None => ends.push((*from, at)),
        }
    }
    let mut run = Vec::with_capacity(ends.len());
    let mut next = ends.last().map(|(_, at)| *at);
    while let Some(at) = next {
        run.extend(pairs.get(at));
        next = previous.get(at).copied().flatten();
    }
    run.reverse();
    run
}

#[cfg(test)]
mod tests {
    use json_patch::{Patch, PatchOperation};
    use serde_json::json;

    use super::*;

    fn elements(names: &[u8]) -> Vec<Value> {
        names
            .iter()
            .map(|name| json!({"name": name.to_string()}))
            .collect()
    }

    fn difference(before: &[Value], after: &[Value]) -> Patch {
        let mut operations = Operations::default();
        operations.append_elements(before, after.to_vec(), WriteKind::Rewrite);
        Patch(operations.list)
    }

    /// All arrays of some of the names, in every order.
    fn arrangements(names: &[u8]) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new()];
        let mut next = 0;
        while let Some(start) = all.get(next).cloned() {
            next += 1;
            let others = names.iter().copied().filter(|name| !start.contains(name));
            all.extend(others.map(|name| [start.as_slice(), &[name]].concat()));
        }
        all
    }

    /// The most elements that stay where they are among each other.
    fn in_order(names: &[u8]) -> usize {
        let subsets = (0..1_u32 << names.len()).map(|set| {
            let chosen = (0..names.len())
                .filter(|at| set >> at & 1 == 1)
                .map(|at| names[at]);
            chosen.is_sorted().then(|| set.count_ones() as usize)
        });
        subsets.flatten().max().unwrap_or_default()
    }

    #[test]
    fn every_order_comes_from_every_number_of_elements_with_as_few_operations_as_can_be() {
        let all = arrangements(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(all.len(), 1_957);
        for length in 0..=5 {
            let before: Vec<u8> = (0..length).collect();
            for after in &all {
                let patch = difference(&elements(&before), &elements(after));
                let mut actual = Value::from(elements(&before));
                json_patch::patch(&mut actual, &patch).unwrap();
                assert_eq!(
                    actual,
                    Value::from(elements(after)),
                    "{before:?} {after:?} {patch}"
                );
                let kept: Vec<u8> = after
                    .iter()
                    .copied()
                    .filter(|name| before.contains(name))
                    .collect();
                let new = after.len() - kept.len();
                let fewest = before.len() - kept.len() + new + kept.len() - in_order(&kept);
                assert_eq!(patch.len(), fewest, "{before:?} {after:?} {patch}");
                let adds = patch
                    .iter()
                    .filter(|operation| matches!(operation, PatchOperation::Add(_)));
                assert_eq!(adds.count(), new, "{before:?} {after:?} {patch}");
            }
        }
    }

    #[test]
    fn an_array_in_which_too_many_elements_move_is_replaced_whole() {
        let elements = |order: &mut dyn Iterator<Item = usize>| -> Vec<Value> {
            order.map(|name| json!({"name": name.to_string()})).collect()
        };
        for (length, operations) in [(MOST_MOVES + 1, MOST_MOVES), (MOST_MOVES + 2, 1)] {
            let (up, down) = (elements(&mut (0..length)), elements(&mut (0..length).rev()));
            assert_eq!(difference(&up, &down).len(), operations);
        }
    }

    #[test]
    fn elements_that_share_a_name_go_by_position() {
        let before = [json!({"name": "a", "x": 1}), json!({"name": "a", "x": 2})];
        let after = [json!({"name": "a", "x": 2}), json!({"name": "a", "x": 1})];
        let patch = difference(&before, &after);
        assert!(
            patch
                .iter()
                .all(|operation| operation.path().as_str().ends_with("/x")),
            "{patch}"
        );
        assert_eq!(patch.len(), 2);
    }
}
