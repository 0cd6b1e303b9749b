import java.io.File;
import org.codehaus.commons.compiler.ICompiler;
import org.codehaus.janino.CompilerFactory;

/** Compiles Java sources with the Janino inside Spark, so that no JDK is needed: {@code Compile <to> <class path> <file>...}. */
public class Compile {
    public static void main(String[] words) throws Exception {
        String[] parts = words[1].split(File.pathSeparator);
        File[] path = new File[parts.length];
        for (int i = 0; i < parts.length; i++) {
            path[i] = new File(parts[i]);
        }
        File[] sources = new File[words.length - 2];
        for (int i = 2; i < words.length; i++) {
            sources[i - 2] = new File(words[i]);
        }
        ICompiler compiler = new CompilerFactory().newCompiler();
        compiler.setDestinationDirectory(new File(words[0]), false);
        compiler.setClassPath(path);
        compiler.compile(sources);
    }
}
