//! The members of a key as a tree of names, made once from its rows, so that a document is read without searching all rows.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{Class, KEYS, Key, MemberRow};

/// What may be at a place of a strategy.
#[derive(Debug)]
pub(in super::super) struct PathNode {
    /// The path from the strategy on, with its class. Inside a list or a map it is that of the list or map, without places
    /// and names.
    pub(in super::super) path: String,
    /// The class of service, if it belongs to one.
    pub(in super::super) class: Option<&'static Class>,
    /// The type of a class in Koordinator's code; of anything else the field of the first row that goes through it.
    pub(in super::super) go_name: &'static str,
    /// What is there.
    pub(in super::super) shape: Shape,
    /// The rank of the first row that goes through it among those of the key, which are ranked by their paths.
    pub(in super::super) rank: u16,
    /// The rank behind that of the last.
    pub(in super::super) end: u16,
}

/// What is at a place.
#[derive(Debug)]
pub(in super::super) enum Shape {
    /// A value.
    Value(&'static MemberRow),
    /// An object with these members.
    Object(Vec<(&'static str, PathNode)>),
    /// A list whose elements are that.
    List(Box<PathNode>),
    /// An object with members of any names that are that.
    Map(Box<PathNode>),
}

/// A row on the way down: what is left of its path.
#[derive(Debug, Clone, Copy)]
struct RowPath {
    rest: &'static str,
    class: Option<&'static Class>,
    field: &'static MemberRow,
    rank: u16,
}

/// The type of what a class gets in Koordinator's code.
const GO_CLASS: &str = "v1alpha1.ResourceQOS";

static TREES: LazyLock<BTreeMap<&'static str, PathNode>> =
    LazyLock::new(|| KEYS.into_iter().map(|key| (key.name, root(key))).collect());

impl Key {
    /// The members of a strategy of the key; `None` for a key that is not among [`KEYS`].
    pub(in super::super) fn tree(&self) -> Option<&'static PathNode> {
        TREES.get(self.name)
    }
}

impl PathNode {
    /// The member of exactly that name, or else the first that `is_same` takes for it.
    pub(in super::super) fn member(
        &'static self,
        name: &str,
        is_same: fn(&str, &str) -> bool,
    ) -> Option<(&'static str, &'static Self)> {
        let members = self.members();
        let exact = members.iter().find(|(known, _)| *known == name);
        let found = exact.or_else(|| members.iter().find(|(known, _)| is_same(name, known)));
        found.map(|(known, node)| (*known, node))
    }

    /// The members of an object; none of anything else.
    pub(in super::super) fn members(&self) -> &[(&'static str, Self)] {
        match &self.shape {
            Shape::Object(members) => members,
            Shape::Value(_) | Shape::List(_) | Shape::Map(_) => &[],
        }
    }
}

/// The members of a strategy: those of classes first, as rows are searched for a name.
fn root(key: &'static Key) -> PathNode {
    let mut rows: Vec<_> = key.rows().collect();
    let path = |class: Option<&Class>, field: &MemberRow| {
        class.map_or_else(String::new, |class| format!("{}.", class.member)) + field.member
    };
    rows.sort_by_key(|(class, field)| path(*class, field));
    let ranked: Vec<RowPath> = (0..)
        .zip(rows)
        .map(|(rank, (class, field))| RowPath {
            rest: field.member,
            class,
            field,
            rank,
        })
        .collect();
    let common: Vec<RowPath> = ranked.iter().filter(|row| row.class.is_none()).copied().collect();
    let classes = key.classes.iter().map(|class| {
        let is_of = |row: &&RowPath| row.class.is_some_and(|other| other.member == class.member);
        let rows: Vec<RowPath> = ranked.iter().filter(is_of).copied().collect();
        let node = PathNode {
            go_name: GO_CLASS,
            ..object(class.member.to_owned(), &rows)
        };
        (class.member, node)
    });
    let mut root = object(String::new(), &common);
    if let Shape::Object(members) = &mut root.shape {
        members.splice(0..0, classes);
    }
    root
}

/// The object with these rows.
fn object(path: String, rows: &[RowPath]) -> PathNode {
    let mut names: Vec<&'static str> = Vec::new();
    for row in rows {
        let name = first_name(row.rest);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let members = names.into_iter().map(|name| {
        let own = rows.iter().filter(|row| first_name(row.rest) == name);
        let own: Vec<RowPath> = own.map(|row| row.behind(name.len())).collect();
        let dot = if path.is_empty() { "" } else { "." };
        (name, node(format!("{path}{dot}{name}"), &own))
    });
    let members = members.collect();
    with_shape(path, rows, Shape::Object(members))
}

/// What is at a path that these rows go through.
fn node(path: String, rows: &[RowPath]) -> PathNode {
    let rest = rows.first().map_or("", |row| row.rest);
    let inner = |skip: usize| {
        let rows: Vec<RowPath> = rows.iter().map(|row| row.behind(skip)).collect();
        Box::new(node(path.clone(), &rows))
    };
    let shape = match (rest.get(..2), rows.first()) {
        (Some("[]"), _) => Shape::List(inner(2)),
        (Some("{}"), _) => Shape::Map(inner(2)),
        (None, Some(row)) if rest.is_empty() => Shape::Value(row.field),
        _ => {
            let rows: Vec<RowPath> = rows.iter().map(|row| row.behind(1)).collect();
            return object(path, &rows);
        }
    };
    with_shape(path, rows, shape)
}

fn with_shape(path: String, rows: &[RowPath], shape: Shape) -> PathNode {
    let first = rows.first();
    PathNode {
        path,
        class: first.and_then(|row| row.class),
        go_name: first.map_or("", |row| row.field.go_name()),
        shape,
        rank: first.map_or(0, |row| row.rank),
        end: rows.last().map_or(0, |row| row.rank + 1),
    }
}

impl RowPath {
    fn behind(self, skip: usize) -> Self {
        let rest = self.rest.get(skip..).unwrap_or_default();
        Self { rest, ..self }
    }
}

fn first_name(path: &'static str) -> &'static str {
    path.split(['.', '[', '{']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{COLOCATION, HOST, NORMALIZATION, QOS},
        *,
    };

    fn leaves(node: &'static PathNode, leaves: &mut Vec<(String, u16)>) {
        match &node.shape {
            Shape::Value(_) => leaves.push((node.path.clone(), node.rank)),
            Shape::Object(members) => members.iter().for_each(|(_, node)| self::leaves(node, leaves)),
            Shape::List(inner) | Shape::Map(inner) => self::leaves(inner, leaves),
        }
    }

    fn at(key: &Key, names: &[&str]) -> &'static PathNode {
        let root = key.tree().unwrap();
        names
            .iter()
            .fold(root, |node, name| node.member(name, |_, _| false).unwrap().1)
    }

    #[test]
    fn every_row_has_a_leaf_and_a_rank_of_its_own() {
        for key in KEYS {
            let mut found = Vec::new();
            leaves(key.tree().unwrap(), &mut found);
            found.sort_by_key(|(_, rank)| *rank);
            let ranks: Vec<usize> = found.iter().map(|(_, rank)| usize::from(*rank)).collect();
            assert_eq!(ranks, (0..key.rows().count()).collect::<Vec<_>>(), "{}", key.name);
        }
    }

    #[test]
    fn a_place_has_the_shape_that_its_path_says() {
        let shares = at(&QOS, &["beClass", "cpuQOS", "groupIdentity"]);
        assert_eq!(shares.path, "beClass.cpuQOS.groupIdentity");
        assert!(matches!(shares.shape, Shape::Value(row) if row.member == "cpuQOS.groupIdentity"));
        assert_eq!(shares.class.map(|class| class.member), Some("beClass"));
        let durations = at(&COLOCATION, &["metricAggregatePolicy", "durations"]);
        assert!(matches!(&durations.shape, Shape::List(inner) if matches!(inner.shape, Shape::Value(_))));
        let Shape::List(application) = &at(&HOST, &["applications"]).shape else {
            panic!("a list")
        };
        assert_eq!(application.members().len(), 5);
        let Shape::Map(model) = &at(&NORMALIZATION, &["ratioModel"]).shape else {
            panic!("a map")
        };
        assert_eq!((model.members().len(), model.end - model.rank), (4, 4));
    }
}
