#!/usr/bin/env python3
"""same-code.py OLD NEW [--list]: compares the Rust items of two checkouts, texts, names and positions aside.

Of each function, constant, static, struct, enum, trait, type and macro, tests aside, the script takes the tokens without
comments, attributes, visibility and generic paths. A string becomes `S`; an identifier becomes its number of first
appearance in the item, so a rename keeps the form and a swap of two variables does not. Of a path the last segment counts.
Items are compared as multisets per package. What is left was added, removed or changed in more than text and name."""
import collections, os, re, sys

OLD, NEW = sys.argv[1:3]
KEYWORDS = set("as async await box break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while yield".split())
TOKEN = re.compile(r'''
 (?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>b?c?r(?P<h>\#*)".*?"(?P=h))|(?P<str>[bc]?"(?:\\.|[^"\\])*")|(?P<char>b?'(?:\\.[^']*|[^'\\])')
 |(?P<life>'\w+)|(?P<num>\d[\w.]*(?<!\.))|(?P<id>(?:r\#)?[A-Za-z_]\w*)|(?P<op>::|->|=>|==|!=|<=|>=|&&|\|\||\.\.=|\.\.|[-+*/%^&|]=|[^\s\w])|(?P<ws>\s+)''', re.S | re.X)

def tokens(text):
    out = []
    for m in TOKEN.finditer(text):
        k = m.lastgroup if m.lastgroup != 'h' else 'raw'
        if m.group('raw'): k = 'raw'
        if k in ('comment', 'ws'): continue
        out.append(('S', 'S') if k in ('raw', 'str') else (k, m.group(0)))
    return out

def close(t, i):
    """Index after the group that opens at i."""
    pairs = {'(': ')', '[': ']', '{': '}'}
    depth = 0
    while i < len(t):
        if t[i][1] in pairs and t[i][0] == 'op': depth += 1
        elif t[i][1] in pairs.values() and t[i][0] == 'op':
            depth -= 1
            if depth == 0: return i + 1
        i += 1
    return i

def items(t, found):
    """Collects the normal forms of the items of a token list."""
    i = 0
    while i < len(t):
        k, v = t[i]
        if v == '#' and i + 1 < len(t) and t[i + 1][1] in ('[', '!'):
            j = i + 1 + (t[i + 1][1] == '!')
            end = close(t, j)
            if [x[1] for x in t[i:end]] == ['#', '[', 'cfg', '(', 'test', ')', ']']:
                i = end
                while i < len(t) and t[i][1] not in ('{', ';'): i += 1
                i = close(t, i) if i < len(t) and t[i][1] == '{' else i + 1
                continue
            i = end; continue
        if v == 'pub':
            i += 1
            if i < len(t) and t[i][1] == '(' : i = close(t, i)
            continue
        if v == 'use':
            while i < len(t) and t[i][1] != ';': i += 1
            i += 1; continue
        if v in ('mod', 'impl', 'trait') and k == 'id':
            start = i
            while i < len(t) and t[i][1] not in ('{', ';'): i += 1
            if i < len(t) and t[i][1] == '{':
                end = close(t, i)
                if v == 'trait' or v == 'mod' or v == 'impl': items(t[i + 1:end - 1], found)
                i = end
            else: i += 1
            continue
        if v in ('fn', 'const', 'static', 'struct', 'enum', 'type', 'union', 'macro_rules') and k == 'id':
            if v == 'const' and t[i + 1][1] in ('fn', 'unsafe', 'async', 'extern'): i += 1; continue
            start = i
            depth = 0
            while i < len(t):
                x = t[i][1] if t[i][0] == 'op' else ''
                if x in ('(', '['): i = close(t, i); continue
                if x == '{':
                    i = close(t, i)
                    if v in ('const', 'static'): continue
                    break
                if x == ';': i += 1; break
                i += 1
            found.append(normal(t[start:i]))
            continue
        i += 1

def normal(t):
    out, names, i = [], {}, 0
    while i < len(t):
        k, v = t[i]
        if v == '#' and i + 1 < len(t) and t[i + 1][1] == '[': i = close(t, i + 1); continue
        if v == 'pub':
            i += 1
            if i < len(t) and t[i][1] == '(' : i = close(t, i)
            continue
        if i + 1 < len(t) and t[i + 1][1] == '::' and k == 'id': i += 2; continue
        if v == '::': i += 1; continue
        if v == ',' and i + 1 < len(t) and t[i + 1][1] in (')', ']', '}', '>'): i += 1; continue
        if k == 'S':
            out.append('S')
        elif k == 'id' and v not in KEYWORDS:
            out.append(f'I{names.setdefault(v, len(names))}')
        else: out.append(v)
        i += 1
    return ' '.join(out)

def skip(path):
    parts = path.split('/')
    return 'tests' in parts or 'tests.rs' in parts or 'target' in parts or parts[0].startswith('.') or 'benches' in parts

def package(path):
    parts = path.split('/')
    return '/'.join(parts[:2]) if parts[0] == 'crates' else parts[0]

def read(root):
    found = collections.defaultdict(collections.Counter); where = {}
    for folder, dirs, files in os.walk(root):
        dirs[:] = [d for d in dirs if d not in ('target', '.git')]
        for f in files:
            path = os.path.relpath(os.path.join(folder, f), root)
            if not f.endswith('.rs') or skip(path): continue
            forms = []
            items(tokens(open(os.path.join(root, path)).read()), forms)
            for form in forms:
                found[package(path)][form] += 1
                where.setdefault((package(path), form), path)
    return found, where

old, old_where = read(OLD); new, new_where = read(NEW)
for p in sorted(set(old) | set(new)):
    gone = old[p] - new[p]; came = new[p] - old[p]
    print(f'{p}: {sum(old[p].values())} items before, {sum(new[p].values())} after, {sum((old[p] & new[p]).values())} the same, {sum(gone.values())} only before, {sum(came.values())} only after')
    if '--list' in sys.argv:
        for sign, forms, where in (('-', gone, old_where), ('+', came, new_where)):
            for form in forms: print('  ', sign, where[p, form], form[:160])
