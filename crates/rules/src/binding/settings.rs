//! Settings of the binding rule, read from flags.

use std::collections::BTreeSet;

use headroom_domain::names;

/// Values of the flags: comma-separated lists. Blanks around an entry and empty entries are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lists<'a> {
    /// `--binding-admission-user-name`: users that may bind pods.
    pub users: &'a str,
    /// `--binding-admission-namespaces`: namespaces in which the rule applies; only a single `*` means all.
    pub namespaces: &'a str,
    /// `--binding-admission-exclude-namespaces`: namespaces in which the rule never applies.
    pub excluded_namespaces: &'a str,
    /// `--binding-admission-bypass-labels`: label keys of pods that any user may bind.
    pub bypass_labels: &'a str,
    /// `--binding-admission-bypass-annotations`: annotation keys of pods that any user may bind.
    pub bypass_annotations: &'a str,
}

/// Parsed settings of the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Users that may bind pods. An empty set turns the rule off.
    pub users: BTreeSet<String>,
    /// Namespaces in which the rule applies.
    pub namespaces: Namespaces,
    /// Namespaces in which the rule never applies.
    pub excluded_namespaces: BTreeSet<String>,
    /// Label keys, with any value, of pods that any user may bind.
    pub bypass_labels: BTreeSet<String>,
    /// Annotation keys, with any value, of pods that any user may bind.
    pub bypass_annotations: BTreeSet<String>,
    /// True if a denial is only counted and the request is allowed.
    pub is_dry_run: bool,
}

/// Namespaces in which the rule applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// The rule applies in every namespace.
    All,
    /// The rule applies in these namespaces; in none if the set is empty.
    Named(BTreeSet<String>),
}

impl Default for Lists<'_> {
    /// No users and no namespaces; `kube-system` and pods with Koordinator's bypass label are excluded.
    fn default() -> Self {
        Self {
            users: "",
            namespaces: "",
            excluded_namespaces: names::KUBE_SYSTEM,
            bypass_labels: names::BINDING_ADMISSION_BYPASS,
            bypass_annotations: "",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::parse(&Lists::default(), false)
    }
}

impl Settings {
    /// Parses the lists. A `*` among other entries or with blanks around it is the name of a namespace that does not
    /// exist.
    pub fn parse(lists: &Lists<'_>, is_dry_run: bool) -> Self {
        let Lists {
            users,
            namespaces,
            excluded_namespaces,
            bypass_labels,
            bypass_annotations,
        } = *lists;
        Self {
            users: entries(users),
            namespaces: match namespaces {
                "*" => Namespaces::All,
                names => Namespaces::Named(entries(names)),
            },
            excluded_namespaces: entries(excluded_namespaces),
            bypass_labels: entries(bypass_labels),
            bypass_annotations: entries(bypass_annotations),
            is_dry_run,
        }
    }
}

fn entries(list: &str) -> BTreeSet<String> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(entries: &[&str]) -> BTreeSet<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn a_list_has_its_entries_without_blanks() {
        for (list, expected) in [
            ("", set(&[])),
            (" , ,", set(&[])),
            ("a", set(&["a"])),
            (" b ,a,, b", set(&["a", "b"])),
            ("a b", set(&["a b"])),
        ] {
            assert_eq!(entries(list), expected, "{list:?}");
        }
    }

    #[test]
    fn only_a_star_alone_is_every_namespace() {
        let namespaces = |namespaces| {
            let lists = Lists {
                namespaces,
                ..Lists::default()
            };
            Settings::parse(&lists, false).namespaces
        };
        assert_eq!(namespaces("*"), Namespaces::All);
        assert_eq!(namespaces(" *"), Namespaces::Named(set(&["*"])));
        assert_eq!(namespaces("*,x"), Namespaces::Named(set(&["*", "x"])));
        assert_eq!(namespaces(""), Namespaces::Named(set(&[])));
    }

    #[test]
    fn the_defaults_are_koordinators() {
        assert_eq!(
            Settings::default(),
            Settings {
                users: set(&[]),
                namespaces: Namespaces::Named(set(&[])),
                excluded_namespaces: set(&["kube-system"]),
                bypass_labels: set(&["koordinator.sh/binding-admission-bypass"]),
                bypass_annotations: set(&[]),
                is_dry_run: false,
            }
        );
    }
}
