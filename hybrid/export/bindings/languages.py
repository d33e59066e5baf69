"""The languages that there are bindings for: their files, their types, and how they say an input or an output."""
from __future__ import annotations

import sys

from ..files import TYPES
from .interface import KEYWORDS, Binding

TAKEN = KEYWORDS | frozenset(("math", "fmt", "java", "scala", "main", "example")) | sys.stdlib_module_names


def _types(*names: str) -> dict[str, str]:
    """Types of elements of a language. Half precision is given as its 16 bits."""
    f32, f64, i64, i32, i16, i8, u64, u32, u16, u8, truth = names
    return {"float32": f32, "float64": f64, "int64": i64, "int32": i32, "int16": i16, "int8": i8, "uint64": u64,
            "uint32": u32, "uint16": u16, "uint8": u8, "bool": truth, "float16": u16, "bfloat16": u16}


CPP = Binding(
    "C++", {"example.cpp": "cpp_example.cpp", "Makefile": "cpp.mk"},
    _types("float", "double", "std::int64_t", "std::int32_t", "std::int16_t", "std::int8_t", "std::uint64_t",
           "std::uint32_t", "std::uint16_t", "std::uint8_t", "unsigned char"),
    {"READ": ("inputs", "    const auto {ident} = argument<{type}>(argc, argv, {place1}, {size});", "\n"),
     "ROOM": ("outputs", "    std::vector<{type}> {ident}({size});", "\n"),
     "ALL": ("every", "{ident}", ", "),
     "WRITE": ("outputs", '    result(argc, argv, {place1}, "{name}", {ident});', "\n")})

RUST = Binding(
    "Rust", {"NAME.rs": "rust.rs", "example.rs": "rust_example.rs", "Makefile": "rust.mk"},
    _types("f32", "f64", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "u8"),
    {"PARAMETERS": ("inputs", "{ident}: &[{type}]", ", "),
     "FITS": ("inputs", "        fits({ident}, unsafe {{ &@name@_inputs[{i}] }})?;", "\n"),
     "ROOM": ("outputs", "        let mut {ident} = vec![<{type}>::default(); {size}];", "\n"),
     "GIVEN": ("inputs", "{ident}.as_ptr() as *const c_void", ", "),
     "TAKEN": ("outputs", "{ident}.as_mut_ptr() as *mut c_void", ", "),
     "TYPES": ("outputs", "Vec<{type}>", ", "), "NAMES": ("outputs", "{ident}", ", "),
     "READ": ("inputs", "    let {ident}: Vec<{type}> = argument!(args, {place}, {type}, {size});", "\n"),
     "REFERENCES": ("inputs", "&{ident}", ", "),
     "WRITE": ("outputs", '    result!(args, {place}, "{name}", {ident});', "\n")},
    {"RESULT": "@TYPES@", "RESULTS": "@NAMES@", "PATTERN": "@NAMES@"},
    {"RESULT": "(@TYPES@)", "RESULTS": "(@NAMES@)", "PATTERN": "(@NAMES@)"})

GO = Binding(
    "Go", {"NAME.go": "go.go", "go.mod": "go.mod.txt", "example/main.go": "go_example.go", "Makefile": "go.mk"},
    _types("float32", "float64", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
    {"C_PARAMETERS": ("every", "{kind}void *{ident}", ", "), "C_GIVEN": ("inputs", "{ident}", ", "),
     "C_TAKEN": ("outputs", "{ident}", ", "),
     "PARAMETERS": ("inputs", "{ident} []{type}", ", "), "RESULTS": ("outputs", "{ident} []{type}", ", "),
     "FITS": ("inputs", '\tif err = fits("{name}", {size}, len({ident})); err != nil {{\n\t\treturn @NILS@, err\n\t}}',
              "\n"),
     "ROOM": ("outputs", "\t{ident} = make([]{type}, {size})", "\n"),
     "POINTERS": ("every", "unsafe.Pointer(&{ident}[0])", ", "),
     "NILS": ("outputs", "nil", ", "), "NAMES": ("outputs", "{ident}", ", "),
     "READ": ("inputs", "\t{ident} := argument[{type}]({place1}, {size})", "\n"),
     "LEFT": ("outputs", "{ident}", ", "), "RIGHT": ("inputs", "{ident}", ", "),
     "WRITE": ("outputs", '\tresult({place1}, "{name}", {ident})', "\n")})

JVM = _types("float", "double", "long", "int", "short", "byte", "long", "int", "short", "byte", "boolean")
JAVA = Binding(
    "Java", {"NAME/Model.java": "java_model.java", "NAME/ModelException.java": "java_exception.java",
             "NAME/Example.java": "java_example.java", "NAME_java.c": "java.c", "Makefile": "java.mk"},
    JVM,
    {"PARAMETERS": ("inputs", "{type}[] {ident}", ", "),
     "FITS": ("inputs", '    fits("{name}", {size}, {ident}.length);', "\n"),
     "ROOM": ("outputs", "    {type}[] {ident} = new {type}[{size}];", "\n"),
     "GIVEN": ("inputs", "{ident}", ", "), "NAMES": ("outputs", "{ident}", ", "), "IDENTS": ("inputs", "{ident}", ", "),
     "FIELDS": ("outputs", "    public final {type}[] {ident};", "\n"),
     "TYPED": ("outputs", "{type}[] {ident}", ", "), "SET": ("outputs", "      this.{ident} = {ident};", "\n"),
     "TYPES": ("outputs", "{type}[]", ", "),
     "READ": ("inputs", "      {type}[] {ident} = ({type}[]) argument(args, {place}, {type}.class, {size});", "\n"),
     "WRITE": ("outputs", '      result(args, {place}, "{name}", @FROM@{ident});', "\n")},
    {"CLASS": "", "RESULT": "@TYPES@", "RESULTS": "@NAMES@", "ALL": "@TYPED@", "FROM": ""},
    {"CLASS": "\n  /** What run gives. */\n  public static final class Results {\n@FIELDS@\n\n    Results(@TYPED@) {\n"
              "@SET@\n    }\n  }\n", "RESULT": "Results", "RESULTS": "new Results(@NAMES@)",
     "ALL": "Model.Results results", "FROM": "results."},
    more=lambda name: {"MANGLED": name.replace("_", "_1")})

SCALA = Binding(
    "Scala", {"Network.scala": "scala.scala", "ScalaExample.scala": "scala_example.scala", "Makefile": "scala.mk"},
    {d: t.capitalize() for d, t in JVM.items()},
    {"IDENTS": ("inputs", "{ident}", ", "), "NAMES": ("outputs", "{ident}", ", "),
     "READ": ("inputs", "      val {ident} = Example.argument(args, {place}, classOf[{type}], {size})"
                        ".asInstanceOf[Array[{type}]]", "\n"),
     "WRITE": ("outputs", '      Example.result(args, {place}, "{name}", @FROM@{ident})', "\n")},
    {"ALL": "@NAMES@", "FROM": ""}, {"ALL": "results", "FROM": "results."}, needs=("java",))

NAMES = _types("float32", "float64", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
OF_R = '  list(name = "{name}", dtype = "{dtype}", shape = c({shape}))'
R = Binding(
    "R", {"NAME_r.c": "r.c", "NAME.R": "r.R", "example.R": "r_example.R", "Makefile": "r.mk"}, NAMES,
    {"INPUTS": ("inputs", OF_R, ",\n"), "OUTPUTS": ("outputs", OF_R, ",\n")})

OF_PERL = "    {{name => '{name}', dtype => '{dtype}', shape => [{shape}], size => {size}, pack => '{type}'}},\n"
PERL = Binding(
    "Perl", {"Name.pm": "perl.pm", "example.pl": "perl_example.pl", "Makefile": "perl.mk"},
    _types("f", "d", "q", "l", "s", "c", "Q", "L", "S", "C", "C"),
    {"INPUTS": ("inputs", OF_PERL, ""), "OUTPUTS": ("outputs", OF_PERL, "")})

PYTHON = Binding(
    "Python", {"NAME/__init__.py": "python_init.py.txt", "example.py": "python_example.py.txt",
               "wheel.py": "python_wheel.py.txt", "Makefile": "python.mk"}, NAMES, {},
    more=lambda name: {"DTYPES": ", ".join(f'"{d}"' for d in TYPES)})

OF_JULIA = '    (name = "{name}", type = {type}, shape = ({shape},)),\n'
JULIA = Binding(
    "Julia", {"Name.jl": "julia.jl", "example.jl": "julia_example.jl"},
    {**_types("Float32", "Float64", "Int64", "Int32", "Int16", "Int8", "UInt64", "UInt32", "UInt16", "UInt8", "Bool"),
     "float16": "Float16"},
    {"INPUTS": ("inputs", OF_JULIA, ""), "OUTPUTS": ("outputs", OF_JULIA, "")})

CSHARP = Binding(
    "C#", {"Name.cs": "csharp.cs", "Example.cs": "csharp_example.cs", "Makefile": "csharp.mk"},
    _types("float", "double", "long", "int", "short", "sbyte", "ulong", "uint", "ushort", "byte", "byte"),
    {"PARAMETERS": ("inputs", "{type}[] {ident}", ", "),
     "FITS": ("inputs", '            Fits("{name}", {size}, {ident}.Length);', "\n"),
     "ROOM": ("outputs", "            var {ident} = new {type}[{size}];", "\n"),
     "PINS": ("every", "GCHandle.Alloc({ident}, GCHandleType.Pinned)", ", "),
     "TYPES": ("outputs", "{type}[] {ident}", ", "), "NAMES": ("outputs", "{ident}", ", "),
     "READ": ("inputs", "                var {ident} = Argument<{type}>(args, {place}, {size});", "\n"),
     "IDENTS": ("inputs", "{ident}", ", "), "TYPE": ("outputs", "{type}[]", ", "),
     "WRITE": ("outputs", '                Result(args, {place}, "{name}", {ident});', "\n")},
    {"RESULT": "@TYPE@", "RESULTS": "@NAMES@", "PATTERN": "@NAMES@"},
    {"RESULT": "(@TYPES@)", "RESULTS": "(@NAMES@)", "PATTERN": "(@NAMES@)"})

OF_JAVASCRIPT = ('  {{ name: "{name}", dtype: "{dtype}", shape: [{shape}], size: {size}, '
                 'bytes: {size} * {type}.BYTES_PER_ELEMENT, type: {type} }},\n')
JAVASCRIPT = Binding(
    "JavaScript", {"index.mjs": "javascript_index.mjs.txt", "index.d.ts": "javascript_index.d.ts",
                   "package.json": "javascript_package.json", "example.mjs": "javascript_example.mjs.txt",
                   "Makefile": "javascript.mk"},
    _types("Float32Array", "Float64Array", "BigInt64Array", "Int32Array", "Int16Array", "Int8Array", "BigUint64Array",
           "Uint32Array", "Uint16Array", "Uint8Array", "Uint8Array"),
    {"INPUTS": ("inputs", OF_JAVASCRIPT, ""), "OUTPUTS": ("outputs", OF_JAVASCRIPT, ""),
     "ALL": ("inputs", "{ident}", ", "), "NAMES": ("outputs", "{ident}", ", "), "TYPES": ("outputs", "{type}", ", "),
     "TYPED": ("inputs", "{ident}: {type} | ArrayLike<number | bigint>", ", ")},
    {"RESULTS": "@NAMES@", "RESULT_TYPE": "@TYPES@"}, {"RESULTS": "[@NAMES@]", "RESULT_TYPE": "[@TYPES@]"},
    more=lambda name: {"PACKAGE": name.replace("_", "-")})

LANGUAGES = {"cpp": CPP, "r": R, "java": JAVA, "scala": SCALA, "perl": PERL, "rust": RUST, "go": GO, "python": PYTHON,
             "julia": JULIA, "csharp": CSHARP, "javascript": JAVASCRIPT}
