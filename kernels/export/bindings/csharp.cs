// The model @name@ in C#: using var model = new @Name@.Model("@name@.weights"); var y = model.Run(x);
// lib@name@.so is found where the system's loader looks, or beside the program.
// Tested with Mono, not with .NET.
using System;
using System.Linq;
using System.Runtime.InteropServices;

namespace @Name@
{
    /// <summary>Thrown with the code of the C library and its words.</summary>
    public sealed class ModelException : Exception
    {
        public int Code { get; }
        internal ModelException(int code, string what)
            : base(what + ": " + Marshal.PtrToStringAnsi(Library.@name@_error_text(code))) => Code = code;
    }

    internal static class Library
    {
        private const string Name = "@name@";
        [DllImport(Name)]
        internal static extern IntPtr @name@_load([MarshalAs(UnmanagedType.LPUTF8Str)] string path, out int error);
        [DllImport(Name)] internal static extern void @name@_free(IntPtr model);
        [DllImport(Name)] internal static extern int @name@_set_threads(IntPtr model, int threads);
        [DllImport(Name)] internal static extern int @name@_run(Handle model, IntPtr[] inputs, IntPtr[] outputs);
        [DllImport(Name)] internal static extern IntPtr @name@_error_text(int error);
    }

    /// <summary>The model in the library's memory, which is not given back while a call uses it.</summary>
    internal sealed class Handle : SafeHandle
    {
        internal Handle(IntPtr model) : base(IntPtr.Zero, true) => SetHandle(model);
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle()
        {
            Library.@name@_free(handle);
            return true;
        }
    }

    /// <summary>The network with its weights. Threads may share it.</summary>
    public sealed class Model : IDisposable
    {
        private readonly Handle model_;

        /// <summary>The model with the weights of a file; each call uses so many threads.</summary>
        public Model(string path, int threads = 1)
        {
            IntPtr made = Library.@name@_load(path, out int code);
            if (made == IntPtr.Zero) throw new ModelException(code, path);
            model_ = new Handle(made);
            code = Library.@name@_set_threads(made, threads);
            if (code == 0) return;
            model_.Dispose();
            throw new ModelException(code, "@name@_set_threads");
        }

        public void Dispose() => model_.Dispose();

        private static void Fits(string name, int wanted, int got)
        {
            if (wanted != got) throw new ArgumentException($"{name} has {wanted} elements, got {got}");
        }

        /// <summary>Computes the outputs from the inputs, whose elements are in C order.</summary>
        public @RESULT@ Run(@PARAMETERS@)
        {
@FITS@
@ROOM@
            var pins_ = new[] { @PINS@ };
            try
            {
                var addresses_ = pins_.Select(p => p.AddrOfPinnedObject());
                int code_ = Library.@name@_run(model_, addresses_.Take(@COUNT_IN@).ToArray(),
                                               addresses_.Skip(@COUNT_IN@).ToArray());
                if (code_ != 0) throw new ModelException(code_, "@name@_run");
            }
            finally
            {
                foreach (var p_ in pins_) p_.Free();
            }
            return @RESULTS@;
        }
    }
}
