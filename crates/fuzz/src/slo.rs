//! Fuzz target: a text under every key of Koordinator's ConfigMap, which any client with the right to write it controls.

use headroom_domain::selector::Labels;
use headroom_rules::{
    SWITCHES,
    slo::{
        self, Data, Nodes, Report, Settings, Target, amplification,
        difference::difference,
        documents::SloDocuments,
        strategies::Strategies,
        table::{AMPLIFICATION, KEYS},
    },
    switch::{Compat, Switches},
};

/// A node that matches selectors in the corpus.
struct OneNode;

impl Nodes for OneNode {
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels)) {
        visitor("n1", &labels());
    }
}

/// The input is the text for each key; after a line `---`, a different text for `system-config`.
pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (text, system) = text.split_once("\n---\n").unwrap_or((text, text));
    let of_key = |name: &str| if name == "system-config" { system } else { text };
    let new: Data = KEYS
        .map(|key| (key.name.to_owned(), of_key(key.name).to_owned()))
        .into();
    for compat in [Compat::Headroom, Compat::Upstream] {
        let report = report(&new, None, compat);
        assert_eq!(report.refusal.is_some(), !report.errors.is_empty(), "{report:?}");
        assert!(report.errors.iter().count() <= 100 && report.warnings.len() <= 34);
        assert_eq!(
            report,
            self::report(&new, None, compat),
            "a second check has another result"
        );
        // Unchanged data is not checked.
        let same = self::report(&new, Some(&new), compat);
        assert_eq!(same, Report::default());
    }
    for key in KEYS {
        let alone: Data = [(key.name.to_owned(), of_key(key.name).to_owned())].into();
        if report(&alone, None, Compat::Headroom).refusal.is_none() {
            // Accepted data can be parsed by its users.
            assert!(key.name != AMPLIFICATION.name || amplification::read(text).is_ok());
            let switches = Switches::default();
            assert_eq!(
                Strategies::read(&alone).conflicts(&labels(), &switches).count(),
                0
            );
            check_explanation(&alone);
        }
    }
}

/// Checks that accepted data can be parsed, that at most one entry selects a node, and that the reported changes are the
/// differences of its values.
fn check_explanation(data: &Data) {
    let (none, documents) = (SloDocuments::read(&Data::new()), SloDocuments::read(data));
    assert!(difference(&documents, &documents, &OneNode).is_empty());
    let changed = difference(&none, &documents, &OneNode);
    for (before, after) in none.iter().zip(documents.iter()) {
        let (before, after) = (before.effective(&labels()), after.effective(&labels()));
        assert_eq!(after.unreadable, None);
        assert!(after.selected_by.len() <= 1, "{:?}", after.selected_by);
        let mut changes = changed
            .iter()
            .filter(|difference| difference.key.name == after.key.name);
        let changes = changes
            .next()
            .map_or(0, |difference| difference.groups[0].changes.len());
        let removed = before
            .values
            .keys()
            .filter(|path| !after.values.contains_key(*path));
        let changed_values = after.values.iter().filter(|(path, value)| {
            let before = before.values.get(*path);
            before.is_none_or(|before| !before.is_same(value))
        });
        assert_eq!(changes, removed.count() + changed_values.count());
    }
}

fn report(new: &Data, old: Option<&Data>, compat: Compat) -> Report {
    let target = Target {
        namespace: "koordinator-system",
        name: "slo-controller-config",
    };
    let settings = Settings { needs_names: true };
    let switches = Switches::preset(SWITCHES, compat);
    slo::check(target, new, old, &settings, &switches, &OneNode)
}

fn labels() -> Labels {
    [("a", "b"), ("pool", "batch")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}
