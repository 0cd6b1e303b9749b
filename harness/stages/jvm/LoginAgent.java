package lostack;

import org.apache.hadoop.security.UserGroupInformation;

/** Gives Hadoop a user, where the operating system knows no name for the process's uid. */
public class LoginAgent {
    public static void premain(String name) {
        UserGroupInformation.setLoginUser(UserGroupInformation.createRemoteUser(name));
    }
}
