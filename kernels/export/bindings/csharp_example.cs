// Loads @name@.weights, runs the model once and prints the first numbers of each output.
//
//     make && mono example.exe ../@name@.weights [threads [input.bin ... [output.bin ...]]]
//
// input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it.
// output.bin: where an output goes, in the same form.
using System;
using System.Globalization;
using System.IO;
using System.Linq;

static class Example
{
    static T[] Argument<T>(string[] args, int place, int size)
    {
        if (args.Length <= place) return new T[size];
        byte[] bytes = File.ReadAllBytes(args[place]);
        var out_ = new T[bytes.Length / Buffer.ByteLength(new T[1])];
        Buffer.BlockCopy(bytes, 0, out_, 0, Buffer.ByteLength(out_));
        return out_;
    }

    static void Result<T>(string[] args, int place, string name, T[] values)
    {
        Console.WriteLine(name + ": " + string.Join(" ", values.Take(10).Select(v => Convert.ToString(v, CultureInfo.InvariantCulture))));
        if (args.Length <= place) return;
        var bytes = new byte[Buffer.ByteLength(values)];
        Buffer.BlockCopy(values, 0, bytes, 0, bytes.Length);
        File.WriteAllBytes(args[place], bytes);
    }

    static int Main(string[] args)
    {
        try
        {
            string path = args.Length > 0 ? args[0] : "../@name@.weights";
            using (var model_ = new @Name@.Model(path, args.Length > 1 ? int.Parse(args[1]) : 1))
            {
@READ@
                var @PATTERN@ = model_.Run(@IDENTS@);
@WRITE@
            }
            return 0;
        }
        catch (Exception e) when (e is @Name@.ModelException || e is ArgumentException || e is IOException)
        {
            Console.Error.WriteLine(e.Message);
            return 1;
        }
    }
}
