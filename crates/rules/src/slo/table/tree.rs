//! The members of a key as a tree of names, built once from its rows, so that parsing a document does not search all
//! rows.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{Class, KEYS, Key, MemberRow};

/// Node of the tree: a position in a strategy.
#[derive(Debug)]
pub(in super::super) struct PathNode {
    /// Path from the strategy, including the class. Inside a list or a map it is the path of the list or map, without
    /// indexes and names.
    pub(in super::super) path: String,
    /// QoS class of the position, if it has one.
    pub(in super::super) class: Option<&'static Class>,
    /// Go type of a class; otherwise the Go field of the first row on this path.
    pub(in super::super) go_name: &'static str,
    /// Type of the value at this position.
    pub(in super::super) shape: Shape,
    /// Rank of the first row on this path among the rows of the key, which are ranked by path.
    pub(in super::super) rank: u16,
    /// Rank after the last row on this path.
    pub(in super::super) end: u16,
}

/// Type of the value at a position.
#[derive(Debug)]
pub(in super::super) enum Shape {
    /// A value without further members.
    Value(&'static MemberRow),
    /// An object with these members.
    Object(Vec<(&'static str, PathNode)>),
    /// A list with elements of this shape.
    List(Box<PathNode>),
    /// An object with arbitrary member names and values of this shape.
    Map(Box<PathNode>),
}

/// A row with the rest of its path below the current node.
#[derive(Debug, Clone, Copy)]
struct RowPath {
    rest: &'static str,
    class: Option<&'static Class>,
    field: &'static MemberRow,
    rank: u16,
}

/// Go type of a class in Koordinator's code.
const GO_CLASS: &str = "v1alpha1.ResourceQOS";

static TREES: LazyLock<BTreeMap<&'static str, PathNode>> =
    LazyLock::new(|| KEYS.into_iter().map(|key| (key.name, root(key))).collect());

impl Key {
    /// Tree of a strategy of the key; `None` for a key outside [`KEYS`].
    pub(in super::super) fn tree(&self) -> Option<&'static PathNode> {
        TREES.get(self.name)
    }
}

impl PathNode {
    /// Returns the member with exactly this name, or else the first one that `is_same` accepts.
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

    /// Members of an object; none for other shapes.
    pub(in super::super) fn members(&self) -> &[(&'static str, Self)] {
        match &self.shape {
            Shape::Object(members) => members,
            Shape::Value(_) | Shape::List(_) | Shape::Map(_) => &[],
        }
    }
}

/// Builds the tree of a strategy; members of classes come first because rows are searched by name.
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

/// Builds the object with these rows.
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

/// Builds the node at a path with these rows.
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
    fn every_row_has_one_leaf_and_a_unique_rank() {
        for key in KEYS {
            let mut found = Vec::new();
            leaves(key.tree().unwrap(), &mut found);
            found.sort_by_key(|(_, rank)| *rank);
            let ranks: Vec<usize> = found.iter().map(|(_, rank)| usize::from(*rank)).collect();
            assert_eq!(ranks, (0..key.rows().count()).collect::<Vec<_>>(), "{}", key.name);
        }
    }

    #[test]
    fn a_node_has_the_shape_of_its_path() {
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
