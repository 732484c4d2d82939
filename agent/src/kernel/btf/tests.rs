//! Tests of `KernelTypes` on a hand-built BTF file, on damaged ones, and on the BTF of the running kernel.

use super::*;

/// Builds BTF: types are numbered from 1 in the order they are added.
#[derive(Default)]
struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
    /// Sizes by kind, from kind 0 on: of the part after a record, and of each of its entries. Empty in older files.
    layout: Vec<[u8; 2]>,
}

fn word(length: usize) -> u32 {
    u32::try_from(length).unwrap()
}

impl Builder {
    fn new() -> Self {
        Self {
            strings: vec![0],
            ..Self::default()
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = word(self.strings.len());
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    fn add(&mut self, name: &str, kind: u32, count: usize, size_or_type: u32, body: &[u32]) -> u32 {
        let name = self.string(name);
        let info = (kind << 24) | word(count);
        for word in [name, info, size_or_type].iter().chain(body) {
            self.types.extend(word.to_le_bytes());
        }
        self.count += 1;
        self.count
    }

    fn int(&mut self, name: &str, size: u32) -> u32 {
        self.add(name, 1, 0, size, &[size * 8])
    }

    /// Members as (name, type, bit offset).
    fn structure(&mut self, name: &str, members: &[(&str, u32, u32)]) -> u32 {
        let body: Vec<u32> = members
            .iter()
            .flat_map(|(name, ty, bits)| [self.string(name), *ty, *bits])
            .collect();
        self.add(name, 4, members.len(), 0, &body)
    }

    fn tracepoint(&mut self, name: &str, parameters: &[u32]) {
        let body: Vec<u32> = parameters.iter().flat_map(|ty| [0, *ty]).collect();
        let prototype = self.add("", 13, parameters.len(), 0, &body);
        let pointer = self.add("", 2, 0, prototype, &[]);
        self.add(&format!("btf_trace_{name}"), 8, 0, pointer, &[]);
    }

    fn bytes(self) -> Vec<u8> {
        let layout: Vec<u8> = self
            .layout
            .iter()
            .flat_map(|[info, entry]| [*info, *entry, 0, 0])
            .collect();
        let strings = word(self.types.len() + layout.len());
        let lengths = [0, word(self.types.len()), strings, word(self.strings.len())];
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let words = if layout.is_empty() {
            [&[24], &lengths as &[u32]].concat()
        } else {
            [
                &[32],
                &lengths as &[u32],
                &[word(self.types.len()), word(layout.len())],
            ]
            .concat()
        };
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(self.types);
        bytes.extend(layout);
        bytes.extend(self.strings);
        bytes
    }

    /// Adds a type of a kind of a later kernel, with `count` entries of 20 bytes after a word.
    fn later_kind(&mut self, kind: u32, count: usize) -> u32 {
        self.add("later", kind, count, 0, &vec![7; 1 + 5 * count])
    }

    /// Describes the sizes of the known kinds and of [`Self::later_kind`].
    fn with_layout(mut self, later: u32) -> Self {
        self.layout = vec![[0, 0]; later as usize + 1];
        self.layout[later as usize] = [4, 20];
        self
    }

    fn kernel(self) -> KernelTypes {
        KernelTypes::parse(Path::new("test"), self.bytes()).unwrap()
    }
}

/// A kernel whose `task_struct` hides `pid` in an anonymous structure, as a randomised layout does.
fn sample() -> Builder {
    sample_into(Builder::new(), |_| ())
}

/// The types of [`sample`] behind those of `built`; `between` adds types before the tracepoint.
fn sample_into(mut built: Builder, between: impl FnOnce(&mut Builder)) -> Builder {
    let uint = built.int("unsigned int", 4);
    let int = built.int("int", 4);
    let pid_t = built.add("pid_t", 8, 0, int, &[]);
    let inner = built.structure("", &[("flags", uint, 0), ("pid", pid_t, 96)]);
    let volatile = built.add("", 9, 0, uint, &[]);
    let pointer = built.add("", 2, 0, 0, &[]);
    let entity = built.structure("sched_entity", &[("on_rq", uint, 0), ("runtime", uint, 64)]);
    let task = built.structure(
        "task_struct",
        &[
            ("__state", volatile, 192),
            ("", inner, 256),
            ("stack", pointer, 512),
            ("se", entity, 640),
        ],
    );
    let task_pointer = built.add("", 2, 0, task, &[]);
    between(&mut built);
    built.tracepoint("sched_switch", &[pointer, uint, task_pointer, task_pointer, uint]);
    built
}

#[test]
fn field_is_found_directly_and_inside_an_anonymous_member() {
    let kernel = sample().kernel();
    assert_eq!(
        kernel.field("task_struct", &["__state", "state"]).unwrap(),
        Field { offset: 24, width: 4 }
    );
    assert_eq!(
        kernel.field("task_struct", &["pid"]).unwrap(),
        Field { offset: 44, width: 4 }
    );
}

#[test]
fn field_of_an_embedded_structure_is_found_by_its_path() {
    let kernel = sample().kernel();
    let runtime = kernel.field("task_struct", &["se.runtime"]).unwrap();
    assert_eq!(runtime, Field { offset: 88, width: 4 });
    for path in ["se.absent", "stack.x", "se.on_rq.x", "absent.runtime"] {
        let error = kernel.field("task_struct", &[path]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`struct task_struct` has no field `{path}`")
        );
    }
}

#[test]
fn second_name_is_tried_where_the_first_does_not_exist() {
    let kernel = sample().kernel();
    assert_eq!(kernel.field("task_struct", &["tid", "pid"]).unwrap().offset, 44);
}

#[test]
fn what_is_not_there_is_named_in_the_error() {
    let kernel = sample().kernel();
    let error = kernel.field("task_struct", &["cgroups", "css_set"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`struct task_struct` has no field `cgroups` or `css_set`"
    );
    let error = kernel.field("mm_struct", &["pgd"]).unwrap_err();
    assert_eq!(error.to_string(), "the kernel's BTF has no struct `mm_struct`");
    let error = kernel
        .check_arguments("sched_wakeup", &[0], "task_struct")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the kernel's BTF has no tracepoint `sched_wakeup`"
    );
}

#[test]
fn pointer_and_bit_field_are_refused_as_integers() {
    let kernel = sample().kernel();
    let error = kernel.field("task_struct", &["stack"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`task_struct.stack` is not a 4 or 8 byte integer"
    );

    let mut built = Builder::new();
    let uint = built.int("unsigned int", 4);
    let (name, member) = (built.string("task_struct"), built.string("pid"));
    // A structure with the flag "members may be bit fields" and one of 3 bits.
    for word in [name, 1 << 31 | 4 << 24 | 1, 4, member, uint, 3 << 24] {
        built.types.extend(word.to_le_bytes());
    }
    let error = built.kernel().field("task_struct", &["pid"]).unwrap_err();
    assert!(matches!(error, BtfError::NotAnInteger { .. }), "{error}");
}

#[test]
fn tracepoint_arguments_are_checked_by_position() {
    let kernel = sample().kernel();
    kernel
        .check_arguments("sched_switch", &[1, 2], "task_struct")
        .unwrap();
    for index in [0, 3, 9] {
        let error = kernel
            .check_arguments("sched_switch", &[index], "task_struct")
            .unwrap_err();
        assert!(
            matches!(error, BtfError::Argument { index: found, .. } if found == index),
            "{error}"
        );
    }
}

/// Type id of a tracepoint.
fn number(kernel: &KernelTypes, tracepoint: &str) -> Option<u32> {
    kernel.types.typedef(&type_name(tracepoint)).unwrap()
}

fn excerpt(kernel: &KernelTypes, tracepoints: &[&str]) -> KernelTypes {
    let bytes = kernel.excerpt(tracepoints);
    KernelTypes::parse(Path::new("excerpt"), bytes).unwrap()
}

#[test]
fn an_excerpt_has_only_the_tracepoints_under_their_type_ids() {
    let mut built = sample();
    built.tracepoint("sched_wakeup", &[]);
    built.tracepoint("mark_victim", &[]);
    let kernel = built.kernel();
    // In another order than in the file, and one that does not exist.
    let excerpt = excerpt(&kernel, &["sched_wakeup", "absent", "sched_switch"]);
    for tracepoint in ["sched_switch", "sched_wakeup"] {
        let right = number(&kernel, tracepoint);
        assert!(right.is_some());
        assert_eq!(number(&excerpt, tracepoint), right, "{tracepoint}");
    }
    assert_eq!(number(&excerpt, "mark_victim"), None);
    assert_eq!(number(&excerpt, "absent"), None);
    for structure in ["task_struct", ""] {
        assert_eq!(excerpt.types.structure(structure).unwrap(), None, "{structure:?}");
    }
}

#[test]
fn an_excerpt_of_nothing_is_an_empty_file() {
    let excerpt = excerpt(&sample().kernel(), &["absent"]);
    assert_eq!(number(&excerpt, "absent"), None);
    assert_eq!(number(&excerpt, "sched_switch"), None);
}

#[test]
fn every_truncation_of_a_file_is_malformed() {
    let whole = sample().bytes();
    for length in 0..whole.len() {
        let outcome = KernelTypes::parse(Path::new("test"), whole[..length].to_vec());
        assert!(matches!(outcome, Err(BtfError::Malformed { .. })), "{length}");
    }
}

#[test]
fn damaged_words_are_errors_or_other_answers_but_never_a_panic() {
    let whole = sample().bytes();
    for at in (0..whole.len() - 4).step_by(4) {
        for word in [0_u32, 1, 0x7fff_ffff, 0xffff_ffff] {
            let mut damaged = whole.clone();
            damaged[at..at + 4].copy_from_slice(&word.to_le_bytes());
            if let Ok(kernel) = KernelTypes::parse(Path::new("test"), damaged) {
                let _found = kernel.field("task_struct", &["pid", "__state"]);
                let _checked = kernel.check_arguments("sched_switch", &[1, 2], "task_struct");
                let bytes = kernel.excerpt(&["sched_switch"]);
                KernelTypes::parse(Path::new("excerpt"), bytes).unwrap();
            }
        }
    }
}

#[test]
fn type_that_contains_itself_is_an_error() {
    let mut built = Builder::new();
    built.structure("task_struct", &[("", 1, 0)]);
    let error = built.kernel().field("task_struct", &["pid"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test: structures nested without end at byte 36"
    );
}

#[test]
fn missing_file_is_named() {
    let error = KernelTypes::read(Path::new("/nowhere/vmlinux")).unwrap_err();
    assert!(error.to_string().starts_with("read /nowhere/vmlinux"), "{error}");
}

#[test]
fn running_kernel_describes_its_tasks() {
    if !Path::new(VMLINUX).exists() {
        return;
    }
    let kernel = KernelTypes::read(Path::new(VMLINUX)).unwrap();
    let pid = kernel.field("task_struct", &["pid"]).unwrap();
    let state = kernel.field("task_struct", &["__state", "state"]).unwrap();
    assert_eq!(pid.width, 4);
    assert!(pid.offset > state.offset && state.offset > 0, "{pid:?} {state:?}");
    kernel
        .check_arguments("sched_switch", &[1, 2], "task_struct")
        .unwrap();
    kernel
        .check_arguments("sched_wakeup", &[0], "task_struct")
        .unwrap();
    let excerpt = excerpt(&kernel, &["sched_switch"]);
    assert_eq!(number(&excerpt, "sched_switch"), number(&kernel, "sched_switch"));
}

const TASK: [&str; 1] = ["pid"];

#[test]
fn kind_that_the_file_describes_is_skipped() {
    for kind in [20, 21, 33, 127] {
        let mut built = Builder::new();
        built.later_kind(kind, 3);
        let first = built.count;
        let later = sample_into(built, |built| {
            built.later_kind(kind, 70_000);
        });
        assert_eq!(first, 1);
        let kernel = later.with_layout(kind).kernel();
        assert_eq!(kernel.field("task_struct", &TASK).unwrap().offset, 44, "{kind}");
        kernel
            .check_arguments("sched_switch", &[1, 2], "task_struct")
            .unwrap();
        let error = kernel.field("mm_struct", &["pgd"]).unwrap_err();
        assert!(
            matches!(error, BtfError::NoType { .. }),
            "all types are known: {error}"
        );
    }
}

#[test]
fn unknown_kind_after_the_needed_types_is_skipped() {
    let mut built = sample();
    built.later_kind(20, 3);
    built.tracepoint("mark_victim", &[]);
    let kernel = built.kernel();
    assert_eq!(kernel.field("task_struct", &TASK).unwrap().offset, 44);
    kernel
        .check_arguments("sched_switch", &[1, 2], "task_struct")
        .unwrap();
    let excerpt = excerpt(&kernel, &["sched_switch", "mark_victim"]);
    assert_eq!(number(&excerpt, "sched_switch"), number(&kernel, "sched_switch"));
    assert_eq!(number(&excerpt, "mark_victim"), None);
}

#[test]
fn type_behind_an_unknown_kind_is_an_error_that_names_the_kind() {
    let mut built = Builder::new();
    built.later_kind(20, 3);
    let kernel = sample_into(built, |_| ()).kernel();
    for error in [
        kernel.field("task_struct", &TASK).unwrap_err(),
        kernel
            .check_arguments("sched_switch", &[1], "task_struct")
            .unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "test: type of an unknown kind at byte 24");
        assert!(!error.is_unsupported(), "the kernel may have the type");
    }
    let mut built = Builder::new();
    built.structure("task_struct", &[("pid", 3, 0)]);
    built.later_kind(20, 0);
    built.int("int", 4);
    let error = built.kernel().field("task_struct", &TASK).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("test: type of an unknown kind at byte "),
        "{error}"
    );
}
