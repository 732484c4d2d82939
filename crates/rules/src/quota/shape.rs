//! Checks of a quota by itself: amounts, and readable annotations.

use headroom_domain::{
    amounts::Amounts,
    field::{BadValue, Path},
    names,
    quantity::Quantity,
};

use super::{Quota, QuotaChange, QuotaRules, Violations, annotation, change::annotation as annotation_path};

/// Maximum number of resources in `min`, and in `max`.
pub const MOST_RESOURCES: usize = 256;
/// Maximum number of namespaces that a quota lists.
pub const MOST_NAMESPACES: usize = 2_048;

/// Adds the violations of a change.
pub fn check(change: &QuotaChange, rules: QuotaRules, found: &mut Violations) {
    let (new, old) = (&change.new, change.baseline(rules));
    let spec = Path::new("spec");
    for (word, part) in [("Max", "max"), ("Min", "min")] {
        let amounts = |quota: &Quota| {
            if part == "max" {
                quota.max.clone()
            } else {
                quota.min.clone()
            }
        };
        let start = format!("{} quota.Spec.{word}'s value < 0, in dimensions :", new.name);
        let old = old.map(amounts).unwrap_or_default();
        check_count(change, part, &amounts(new), &old, found);
        check_signs(
            &amounts(new),
            &old,
            &start,
            &|key| spec.child(part).key(key),
            found,
        );
    }
    check_namespace_count(change, old, found);
    check_weight(change, rules, found);
    check_bounds(new, old, found);
    check_strict_keys(change, rules, found);
    if rules.checks_annotations {
        check_readable(change, rules, found);
    }
}

/// Refuses a list that is too long to compare with those of many other quotas.
fn check_count(change: &QuotaChange, part: &str, amounts: &Amounts, old: &Amounts, found: &mut Violations) {
    let (count, name) = (amounts.iter().count(), &change.new.name);
    if count > MOST_RESOURCES && count > old.iter().count() {
        let text =
            format!("quota {name} names {count} resources in {part}, at most {MOST_RESOURCES} are allowed");
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        found.push(&Path::new("spec").child(part), count, text);
    }
}

/// Refuses a list of namespaces that each replica would keep in memory.
fn check_namespace_count(change: &QuotaChange, old: Option<&Quota>, found: &mut Violations) {
    let (count, name) = (change.new.namespaces.len(), &change.new.name);
    if count > MOST_NAMESPACES && old.is_none_or(|old| count > old.namespaces.len()) {
        let text = format!("quota {name} lists {count} namespaces, at most {MOST_NAMESPACES} are allowed");
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        found.push(&annotation_path(names::QUOTA_NAMESPACES), count, text);
    }
}

/// Adds negative amounts that are lower than before.
fn check_signs(
    amounts: &Amounts,
    old: &Amounts,
    start: &str,
    field: &dyn Fn(&str) -> Path,
    found: &mut Violations,
) {
    for (key, amount) in amounts.iter().filter(|(_, amount)| amount.is_negative()) {
        if old.get(key).is_some_and(|old| old.is_negative() && amount >= old) {
            continue;
        }
        found.push_name(start, key, &field(key), amount.to_string());
    }
}

fn check_weight(change: &QuotaChange, rules: QuotaRules, found: &mut Violations) {
    let (key, name) = (names::QUOTA_SHARED_WEIGHT, &change.new.name);
    let (text, field) = (change.parts.annotation(key), annotation_path(key));
    let old = change.old_annotation(key, rules);
    if old == Some(text) {
        return;
    }
    match annotation::amounts(text) {
        Err(error) => found.push(&field, text, error),
        Ok(amounts) => {
            let start = format!("{name} quota.Annotation[{key}]'s value < 0, in dimension :");
            let old = old.and_then(|old| annotation::amounts(old).ok().flatten());
            let (amounts, old) = (amounts.unwrap_or_default(), old.unwrap_or_default());
            check_signs(&amounts, &old, &start, &|_| field.clone(), found);
        }
    }
}

/// Checks that `min` is within `max`.
fn check_bounds(new: &Quota, old: Option<&Quota>, found: &mut Violations) {
    let (name, field) = (&new.name, Path::new("spec").child("min"));
    for (key, min) in new.min.iter() {
        let Some(max) = new.max.get(key) else {
            if !old.is_some_and(|old| old.min.contains(key) && !old.max.contains(key)) {
                let text = format!(
                    "resourceKey {key} of quota {name} is included in min, which is not included in max"
                );
                found.push(&field.key(key), min.to_string(), text);
            }
            continue;
        };
        let old = old.and_then(|old| Some((old.min.get(key)?, old.max.get(key)?)));
        let (excess, before) = (excess(min, max), old.and_then(|(min, max)| excess(min, max)));
        if excess.is_some() && excess > before {
            let text = format!("resourceKey {key} of quota {name} min {min} > max {max}");
            found.push(&field.key(key), min.to_string(), text);
        }
    }
}

/// Returns the amount by which `larger` exceeds `smaller`; `None` if it does not.
fn excess(larger: &Quantity, smaller: &Quantity) -> Option<Quantity> {
    let difference = larger.checked_sub(smaller).filter(|_| larger > smaller);
    // A difference beyond the range of a quantity counts as the larger amount.
    difference.or_else(|| (larger > smaller).then_some(*larger))
}

/// Checks that `max` of the listed resources covers their usage.
fn check_strict_keys(change: &QuotaChange, rules: QuotaRules, found: &mut Violations) {
    let (annotation_key, new) = (names::QUOTA_STRICT_KEYS, &change.new);
    let (text, field) = (
        change.parts.annotation(annotation_key),
        annotation_path(annotation_key),
    );
    let old_text = change.old_annotation(annotation_key, rules);
    let keys = match annotation::names(text) {
        Ok(keys) => keys,
        Err(_) if old_text == Some(text) => return,
        Err(error) => {
            let name = &new.name;
            let text_of_error =
                format!("{name} quota.Annotation[{annotation_key}]'s value is invalid: {error}");
            return found.push(&field, text, text_of_error);
        }
    };
    let old_keys = old_text.map(|text| annotation::names(text).unwrap_or_default());
    let (name, max_field) = (&new.name, Path::new("spec").child("max"));
    let used = change.used().cloned().unwrap_or_default();
    for key in &keys {
        let Some(used) = used.get(key) else { continue };
        let max = new.max.get(key);
        let was_strict = old_keys.as_ref().is_some_and(|keys| keys.contains(key));
        let old_max = change
            .baseline(rules)
            .filter(|_| was_strict)
            .map(|old| old.max.get(key));
        let has_not_fallen = old_max.is_some_and(|old| match (max, old) {
            (Some(max), Some(old)) => max >= old,
            (None | Some(_), None) => true,
            (None, Some(_)) => false,
        });
        let text = match max {
            _ if has_not_fallen => continue,
            None => format!(
                "resourceKey {key} of quota {name} is included in used, which is not included in max but should check max >= used"
            ),
            Some(max) if max < used => format!("resourceKey {key} of quota {name} max {max} < used {used}"),
            Some(_) => continue,
        };
        let shown = max.map_or_else(|| "absent".to_owned(), ToString::to_string);
        found.push(&max_field.key(key), BadValue::from(shown), text);
    }
}

/// Checks annotations that Koordinator later reads without reporting errors.
fn check_readable(change: &QuotaChange, rules: QuotaRules, found: &mut Violations) {
    let name = &change.new.name;
    let refuse = |key: &str, text: &str, error: String, found: &mut Violations| {
        let sentence = format!("{name} quota.Annotation[{key}]'s value is invalid: {error}");
        found.push(&annotation_path(key), text, sentence);
    };
    let fresh = |key: &str| {
        let text = change.parts.annotation(key);
        (change.old_annotation(key, rules) != Some(text)).then_some(text)
    };
    if let Some(text) = fresh(names::QUOTA_NAMESPACES)
        && let Err(error) = annotation::names(text)
    {
        refuse(names::QUOTA_NAMESPACES, text, error, found);
    }
    for key in [names::QUOTA_ADMISSION, names::QUOTA_GUARANTEED] {
        let Some(text) = fresh(key) else { continue };
        match annotation::amounts(text) {
            Err(error) => refuse(key, text, error, found),
            Ok(amounts) => {
                let start = format!("{name} quota.Annotation[{key}]'s value < 0, in dimension :");
                let field = annotation_path(key);
                let amounts = amounts.unwrap_or_default();
                check_signs(&amounts, &Amounts::default(), &start, &|_| field.clone(), found);
            }
        }
    }
}
